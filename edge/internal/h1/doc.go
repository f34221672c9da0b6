// Package h1 reads and writes HTTP/1.1 (RFC 9112) for both sides of the gateway: heads as they came with a small index
// over them, and bodies piece by piece out of the buffer they were read into.
//
// It is strict: a message that two programs could read differently is refused, never mended. So what is forwarded is
// what was judged. Nothing is canonicalised, nothing is copied that need not be, and a request on a connection that is
// kept alive allocates nothing.
//
// Invariants: a message is refused or has exactly one length; what follows a message is never part of it; a body that
// ends early is an error and never an end; between messages, and while a body has nothing to give, a Reader holds no
// buffer.
package h1
