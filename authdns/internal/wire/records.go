package wire

// TypeTSIG is the type of the record that signs a message (RFC 8945).
const TypeTSIG = 250

// Types of transfers, as questions.
const (
	TypeIXFR = 251 // RFC 1995
	TypeAXFR = 252 // RFC 5936
)

// Aside reports whether a message wants more than an answer from the index: it is signed, or it asks for a transfer.
func (q *Query) Aside() bool {
	return q.TSIG || q.Opcode == OpcodeQuery && (q.Type == TypeAXFR || q.Type == TypeIXFR)
}

// SkipName steps over a name at off; a pointer ends it and is not followed. ok is false when the name does not end in
// the message.
func SkipName(msg []byte, off int) (next int, ok bool) { return skipName(msg, off) }
