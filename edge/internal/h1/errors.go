package h1

import "fmt"

// Error is why a message is not taken. All of them are the variables below, so they are compared with ==.
type Error struct {
	// Status is what the sender of such a request is told. For a response it means nothing: that is a 502.
	Status int
	// Code is the reason in one word, for logs and metrics.
	Code string
	// Text says what is wrong, for people.
	Text string
}

// Error gives code and text.
func (e *Error) Error() string { return fmt.Sprintf("%s: %s", e.Code, e.Text) }

// The first line.
var (
	ErrStartLine     = &Error{400, "start_line", "the first line is not METHOD TARGET HTTP/1.1 with single spaces"}
	ErrMethod        = &Error{400, "method", "the method is not a token"}
	ErrMethodLong    = &Error{501, "method_long", "no method is that long"}
	ErrMethodRefused = &Error{501, "method_refused", "CONNECT and TRACE are not served"}
	ErrTarget        = &Error{400, "target", "the target is not a path that begins with /, an absolute http URL, or * with OPTIONS"}
	ErrTargetByte    = &Error{400, "target_byte", "the target holds an octet that no URL has unescaped"}
	ErrTargetLong    = &Error{414, "target_long", "the target is longer than the limit"}
	ErrVersion       = &Error{505, "version", "the version is neither HTTP/1.0 nor HTTP/1.1"}
	ErrPreface       = &Error{505, "h2_preface", "HTTP/2 is not spoken on this connection"}
	ErrNotHTTP       = &Error{400, "not_http", "this is not HTTP"}
	// ErrInformation is for who reads responses: a Reader counts none.
	ErrInformation = &Error{502, "information", "too many informational responses"}
	ErrStatusLine  = &Error{502, "status_line", "the first line is not HTTP/1.1 STATUS REASON"}
)

// Lines and fields.
var (
	ErrBareLF      = &Error{400, "bare_lf", "a line ends with LF without CR"}
	ErrFold        = &Error{400, "fold", "a field is continued on a second line"}
	ErrFieldName   = &Error{400, "field_name", "a field name is empty or not a token, such as with a space before the colon"}
	ErrFieldValue  = &Error{400, "field_value", "a field value holds a control octet"}
	ErrFieldLong   = &Error{431, "field_long", "a field is longer than the limit"}
	ErrFieldsMany  = &Error{431, "fields_many", "more fields than the limit"}
	ErrHeadLong    = &Error{431, "head_long", "the head is longer than the limit"}
	ErrHostMissing = &Error{400, "host_missing", "an HTTP/1.1 request has no Host"}
	ErrHostMany    = &Error{400, "host_many", "more than one Host"}
	ErrHost        = &Error{400, "host", "Host is not a name or an address with an optional port"}
	ErrHostDiffers = &Error{400, "host_differs", "Host is not the authority of the target"}
	ErrConnection  = &Error{400, "connection", "Connection is not a list of tokens, or names too many fields"}
	ErrExpect      = &Error{417, "expect", "an expectation other than 100-continue"}
)

// The length of a body.
var (
	ErrLength        = &Error{400, "length", "Content-Length is not a decimal number"}
	ErrLengthMany    = &Error{400, "length_many", "more than one Content-Length"}
	ErrLengthCoding  = &Error{400, "length_coding", "Content-Length and Transfer-Encoding in one message"}
	ErrUpgradeBody   = &Error{400, "upgrade_body", "a request to upgrade the connection has a body"}
	ErrLengthBig     = &Error{413, "length_big", "the body is larger than the limit"}
	ErrCoding        = &Error{400, "coding", "Transfer-Encoding is not exactly chunked"}
	ErrCodingUnknown = &Error{501, "coding_unknown", "a transfer coding other than chunked"}
	ErrCodingMany    = &Error{400, "coding_many", "more than one Transfer-Encoding"}
	ErrCodingVersion = &Error{400, "coding_version", "Transfer-Encoding in HTTP/1.0"}
	ErrCodingStatus  = &Error{502, "coding_status", "Transfer-Encoding in a response that has no body"}
)

// The body itself.
var (
	ErrChunkSize = &Error{400, "chunk_size", "a chunk size is not a hexadecimal number"}
	ErrChunkExt  = &Error{400, "chunk_ext", "a chunk extension is malformed or too long"}
	ErrChunkEnd  = &Error{400, "chunk_end", "a chunk does not end with CR LF"}
	ErrTrailer   = &Error{400, "trailer", "a trailer field is malformed"}
	ErrTrailers  = &Error{431, "trailer_long", "trailer fields are longer than the limit"}
	// ErrCut is a message that ended before its end: the connection closed in the middle.
	ErrCut = &Error{400, "cut", "the connection ended before the message did"}
)
