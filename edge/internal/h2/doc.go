// Package h2 is the server's side of HTTP/2 (RFC 9113) on one connection: frames, streams, flow control, and the limits that
// keep a client from making more work than it does. A request leaves it as a head of HTTP/1.1 in octets, so that one codec
// judges all requests, and a response comes as such a head; bodies are octets both ways.
//
// One goroutine, that of Serve, reads frames; each request has one of its own while it is answered. Who has something to
// say appends it to what goes out and writes it, with what others appended meanwhile, in one call.
//
// Only HPACK's decoder is a library's (golang.org/x/net). Frames are read where they lie. What is sent is encoded with the static table
// alone, so that a response needs no state of the connection.
//
// Invariants: what the peer can make us keep is bounded (the receive windows, MaxStreams heads, and what it did not read
// yet); a handler runs for each of MaxStreams streams at most, reset or not; a malformed request ends its stream, and a
// malformed frame the connection; nothing waits without a time limit; between requests a connection holds no buffer.
package h2
