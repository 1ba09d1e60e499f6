"""The viewer: one page that shows every prompt of a session, call by call, in a browser.

`document` holds the page's data as frozen values, `builder` reads them from stored sessions and recordings, `page` makes one
self-contained HTML text of them, `choices` lists the sessions that can be opened and `server` serves their pages on this machine.
The page itself is plain HTML, CSS and JavaScript in `page_files`; it asks for nothing from elsewhere.
"""
