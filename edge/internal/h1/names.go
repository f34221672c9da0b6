package h1

// ID is a field name that the gateway has a use for; the others are Other.
type ID uint8

// The fields known by ID.
const (
	Other ID = iota
	Authorization
	CacheControl
	Connection
	ContentLength
	ContentType
	Cookie
	Date
	Expect
	Forwarded
	Host
	KeepAlive
	ProxyAuthenticate
	ProxyAuthorization
	ProxyConnection
	Referer
	Server
	SetCookie
	TE
	Trailer
	TransferEncoding
	Upgrade
	UserAgent
	Via
	XForwardedFor
	XForwardedHost
	XForwardedPort
	XForwardedProto
	ids
)

// identify finds the ID of a name. Lengths tell most names apart, so that one comparison is made, or none.
func identify(name []byte) ID {
	first, second := byLength(len(name), lower(name[0]))
	if first.id != Other && same(name, first.name) {
		return first.id
	}
	if second.id != Other && same(name, second.name) {
		return second.id
	}
	return Other
}

type known struct {
	name string
	id   ID
}

// byLength gives the one or two names of a length that begin with an octet.
func byLength(n int, o byte) (first, second known) {
	switch n {
	case 2:
		first = known{"te", TE}
	case 3:
		first = known{"via", Via}
	case 4:
		if o == 'h' {
			return known{"host", Host}, second
		}
		first = known{"date", Date}
	case 6:
		switch o {
		case 'c':
			first = known{"cookie", Cookie}
		case 'e':
			first = known{"expect", Expect}
		case 's':
			first = known{"server", Server}
		}
	case 7:
		switch o {
		case 'r':
			first = known{"referer", Referer}
		case 't':
			first = known{"trailer", Trailer}
		case 'u':
			first = known{"upgrade", Upgrade}
		}
	case 9:
		first = known{"forwarded", Forwarded}
	case 10:
		return tenLong(o), second
	default:
		return longer(n, o)
	}
	return first, second
}

func tenLong(o byte) known {
	switch o {
	case 'c':
		return known{"connection", Connection}
	case 'k':
		return known{"keep-alive", KeepAlive}
	case 's':
		return known{"set-cookie", SetCookie}
	case 'u':
		return known{"user-agent", UserAgent}
	}
	return known{}
}

func longer(n int, o byte) (first, second known) {
	switch n {
	case 12:
		first = known{"content-type", ContentType}
	case 13:
		if o == 'a' {
			return known{"authorization", Authorization}, second
		}
		first = known{"cache-control", CacheControl}
	case 14:
		first = known{"content-length", ContentLength}
	case 15:
		first = known{"x-forwarded-for", XForwardedFor}
	case 16:
		if o == 'x' {
			return known{"x-forwarded-host", XForwardedHost}, known{"x-forwarded-port", XForwardedPort}
		}
		first = known{"proxy-connection", ProxyConnection}
	case 17:
		if o == 'x' {
			return known{"x-forwarded-proto", XForwardedProto}, second
		}
		first = known{"transfer-encoding", TransferEncoding}
	case 18:
		first = known{"proxy-authenticate", ProxyAuthenticate}
	case 19:
		first = known{"proxy-authorization", ProxyAuthorization}
	}
	return first, second
}

// hop reports whether a field is about one connection and never passed on (RFC 9110 section 7.6.1). Content-Length is not
// about the connection, but what is passed on gets its own.
func (id ID) hop() bool {
	switch id {
	case Connection, KeepAlive, ProxyAuthenticate, ProxyAuthorization, ProxyConnection, TE, TransferEncoding, Upgrade, ContentLength:
		return true
	}
	return false
}

// Framing reports whether a field name is about a connection or the length of a message, or is Host: what only the codec
// and the core may write.
func Framing(name string) bool {
	if name == "" {
		return true
	}
	id := identify([]byte(name))
	return id == Host || id.hop()
}
