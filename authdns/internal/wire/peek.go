package wire

// PeekName is the name of the first question of a message, in lower case, without a look at anything else; empty if there is
// none that could be read. It is valid until the next call, and what Parse read before is not any more.
func (q *Query) PeekName(msg []byte) []byte {
	if len(msg) < HeaderLen {
		return nil
	}
	q.nameLen = 0
	q.readName(msg, HeaderLen)
	return q.Name()
}
