// Package notify delivers news to webhooks and chat robots.
//
// Each target has a queue of its own, kept in its outbox on disk: an event that was taken is delivered at least once,
// also over a kill, unless it is older than a day or more than 1,000 newer ones wait; what is lost so is counted and told
// with the next message. A message keeps its ID over every try and every restart, so that a receiver tells repeats apart.
//
// Invariants: nothing here is waited for by anyone; a target that is slow or dead holds up no other; what is in a key
// file, and the URL beyond its host, is in no error, status or log.
package notify
