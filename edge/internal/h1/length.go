package h1

// Kind is how the end of a body is told.
type Kind uint8

// The ways a body ends.
const (
	None       Kind = iota // there is no body
	Sized                  // after a number of octets
	Chunked                // by the last chunk
	UntilClose             // with the connection; responses alone
)

// Length is the length of a body.
type Length struct {
	Kind Kind
	N    int64 // octets, with Sized
}

// Known is the length in octets; -1: it is told only by its end.
func (l Length) Known() int64 {
	switch l.Kind {
	case None:
		return 0
	case Sized:
		return l.N
	case Chunked, UntilClose:
	}
	return -1
}
