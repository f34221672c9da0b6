package h2

import "encoding/binary"

// frameType is the type of a frame (RFC 9113 section 6).
type frameType uint8

const (
	frameData frameType = iota
	frameHeaders
	framePriority
	frameReset
	frameSettings
	framePush
	framePing
	frameGoAway
	frameWindow
	frameContinuation
)

// Flags of frames.
const (
	flagAck        = 0x1
	flagEndStream  = 0x1
	flagEndHeaders = 0x4
	flagPadded     = 0x8
	flagPriority   = 0x20
)

const (
	frameHead = 9
	// maxFrame is the largest payload we take and send: the least a peer must take (RFC 9113 section 4.2).
	maxFrame  = 16 << 10
	maxStream = 1<<31 - 1
	maxWindow = 1<<31 - 1
	// firstWindow is every window before anybody has said otherwise (section 6.9.2).
	firstWindow = 1<<16 - 1
)

// Preface is what a client begins with (RFC 9113 section 3.4).
const Preface = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"

// frame is the head of a frame.
type frame struct {
	length int
	kind   frameType
	flags  uint8
	stream uint32
}

func (f frame) has(flag uint8) bool { return f.flags&flag != 0 }

// readFrame reads a head of frameHead octets.
func readFrame(b []byte) frame {
	return frame{
		length: int(b[0])<<16 | int(b[1])<<8 | int(b[2]), kind: frameType(b[3]), flags: b[4],
		stream: binary.BigEndian.Uint32(b[5:]) & maxStream,
	}
}

func appendFrame(dst []byte, length int, kind frameType, flags uint8, stream uint32) []byte {
	dst = append(dst, byte(length>>16), byte(length>>8), byte(length), byte(kind), flags)
	return binary.BigEndian.AppendUint32(dst, stream)
}

// setting is a parameter of SETTINGS (RFC 9113 section 6.5.2).
type setting struct {
	id    uint16
	value uint32
}

const (
	settingTable   = 1
	settingPush    = 2
	settingStreams = 3
	settingWindow  = 4
	settingFrame   = 5
	settingList    = 6
	settingConnect = 8 // RFC 8441 section 3
	// settingNoPriorities says that priorities of RFC 7540 are not looked at (RFC 9218 section 2.1).
	settingNoPriorities = 9
)

func appendSettings(dst []byte, all ...setting) []byte {
	dst = appendFrame(dst, 6*len(all), frameSettings, 0, 0)
	for _, s := range all {
		dst = binary.BigEndian.AppendUint16(dst, s.id)
		dst = binary.BigEndian.AppendUint32(dst, s.value)
	}
	return dst
}

func appendReset(dst []byte, stream uint32, code Code) []byte {
	dst = appendFrame(dst, 4, frameReset, 0, stream)
	return binary.BigEndian.AppendUint32(dst, uint32(code))
}

func appendWindow(dst []byte, stream uint32, n int) []byte {
	dst = appendFrame(dst, 4, frameWindow, 0, stream)
	return binary.BigEndian.AppendUint32(dst, uint32(n))
}

func appendPing(dst []byte, flags uint8, data []byte) []byte {
	return append(appendFrame(dst, 8, framePing, flags, 0), data...)
}

func appendGoAway(dst []byte, last uint32, code Code, why string) []byte {
	dst = appendFrame(dst, 8+len(why), frameGoAway, 0, 0)
	dst = binary.BigEndian.AppendUint32(dst, last)
	dst = binary.BigEndian.AppendUint32(dst, uint32(code))
	return append(dst, why...)
}
