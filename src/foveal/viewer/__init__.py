"""The viewer: one page that shows every prompt of a session, call by call, in a browser.

`document` holds the page's data as frozen values; `session_log` and `run_reader` read them from a log in one pass, `builder` from
stored sessions and recordings, `live` from a session that grows. `page` makes one HTML text of them. `choices` lists
the sessions that can be opened, `session_pages` builds their pages and counts their bills in the background, and `server` serves
them on this machine. The page itself is plain HTML, CSS and JavaScript in `page_files`; all its words are in `strings.js`.
"""
