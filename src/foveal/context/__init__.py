"""What is put in front of the model beside the conversation: mentions, tools, skills, instructions from disk."""
