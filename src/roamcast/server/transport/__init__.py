"""What lies between a TCP socket and a protocol: WebSocket frames, and TLS.

- `tls.py`: `server_context` and `link_context`, whose errors name the file that is wrong
- `websocket.py`: `WebSocketProtocol`, around any byte protocol
"""
