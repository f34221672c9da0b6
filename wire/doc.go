// Package wire carries snapshots down to nodes and reports up to control: the service definition (Calls), the server
// that control runs (Hub) and the client that a node runs (Client).
//
// # Calls
//
// Everything goes over HTTP/2 on TLS 1.3; nothing else is spoken. Calls is the list of what a node can ask. The server's
// routes are built from it, so that a handler without an entry is reached by nobody, and each entry says who may call:
// with a token, or with a node's certificate that names one of the entry's roles. The certificate is judged at every
// call, and Registry.Admit is asked at every call and every keep-alive of a stream: a revocation needs no connection to
// end first. What a node says of others is not believed: the point of an observation is the node that sent it.
//
// Refusals are pki.Refusal as JSON with the HTTP status of their code, and the Client returns the same value.
//
// # Streams
//
// A stream is the body of a response that does not end. It is a row of frames:
//
//	4 bytes   length of the payload, big endian
//	1 byte    kind; its highest bit says that the payload is packed with gzip
//	          payload: JSON, or nothing
//
// The first is Hello, then come snapshots, deltas, states and questions, and a keep-alive whenever nothing else came
// for five seconds. A node takes three of them missing for the end. The first snapshot always comes: a delta from the
// version that the node said it has, if control still keeps that version, also when it is the newest (then the delta is
// empty, and its digest proves that both mean the same by the number); otherwise the whole. After that a node gets what
// leads from what it was sent last to the newest, so that one that is slow skips what is in between. Publishing waits for
// nobody, and each frame is made once and shared by all.
//
// # Version skew
//
// Readers skip fields, frame kinds and header fields they do not know. Writers add, and never rename or use again.
// testdata/v1 holds each message as it is written, testdata/oldest each as the first version may write it at least.
//
// # Why JSON, packed above 32 KiB
//
// BenchmarkEncoding, best of six runs of eight on the shared two-core machine of 2026-11-30, go1.27.3; "full" is a map of
// 10,000 services (alike, so they pack better than real ones), "delta" one changed service of it. Milliseconds:
//
//	             full: bytes  encode  decode     delta: bytes  encode  decode
//	json           3,363,328    18.9    36.1              482   0.013   0.021
//	json + gzip 1    117,043    16.4    48.6              329   1.010   0.051
//	json + gzip 6    109,729    32.7    46.7              308   0.689   0.030
//	gob            1,561,050     9.4    15.9            1,474   0.051   0.089
//
// A change is nearly always a small delta: there plain JSON is the quickest, and gob the largest, since it sends its
// types each time. A whole map is sent to a node that is new; gob is two to three times faster there, but a process has
// 10,000 services decoded in 50 ms either way, and what counts on a thin link is that gzip sends a thirtieth. JSON is what
// the API and the files on disk speak too, can be read in a capture, and skips what it does not know by itself. gzip at
// level 1 has the size of level 6 within a tenth at half of the time.
//
// BenchmarkFanOut, same day, other work on the machine (load 5 to 13 on two cores): one changed service to 1,000 nodes,
// control and nodes in one process over TLS on loopback: the last node has it decoded after 140 to 240 ms in the mean,
// 760 ms at worst, median node 105 to 180 ms, with 100 services and with 10,000 alike. About 0.1 ms of processor time a
// node, both ends together, most of it system calls.
package wire
