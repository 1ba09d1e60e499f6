"""headroom: contents are compressed, the whole history at each call; it keeps to no budget."""

from headroom import compress

from engines.port import Plain


class Headroom(Plain):
    def step(self, place: int) -> None:
        history = self.job.messages[:place]
        self.sent = compress(history, model="gpt-4o", model_limit=self.job.budget, kompress_model="disabled").messages
