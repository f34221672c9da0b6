package h2up

import (
	"encoding/binary"

	"golang.org/x/net/http2"
)

func appendFrame(dst []byte, length int, kind http2.FrameType, flags http2.Flags, stream uint32) []byte {
	dst = append(dst, byte(length>>16), byte(length>>8), byte(length), byte(kind), byte(flags))
	return binary.BigEndian.AppendUint32(dst, stream)
}

func appendSettings(dst []byte, all ...http2.Setting) []byte {
	dst = appendFrame(dst, 6*len(all), http2.FrameSettings, 0, 0)
	for _, s := range all {
		dst = binary.BigEndian.AppendUint16(dst, uint16(s.ID))
		dst = binary.BigEndian.AppendUint32(dst, s.Val)
	}
	return dst
}

func appendWindow(dst []byte, stream uint32, n int64) []byte {
	dst = appendFrame(dst, 4, http2.FrameWindowUpdate, 0, stream)
	return binary.BigEndian.AppendUint32(dst, uint32(n))
}

func appendReset(dst []byte, stream uint32, code http2.ErrCode) []byte {
	dst = appendFrame(dst, 4, http2.FrameRSTStream, 0, stream)
	return binary.BigEndian.AppendUint32(dst, uint32(code))
}

func appendPing(dst []byte, flags http2.Flags, data [8]byte) []byte {
	return append(appendFrame(dst, len(data), http2.FramePing, flags, 0), data[:]...)
}

// appendGoAway says that the connection ends. No stream of a client is the peer's: the last one of those is 0.
func appendGoAway(dst []byte, code http2.ErrCode) []byte {
	dst = appendFrame(dst, 8, http2.FrameGoAway, 0, 0)
	dst = binary.BigEndian.AppendUint32(dst, 0)
	return binary.BigEndian.AppendUint32(dst, uint32(code))
}

func appendData(dst []byte, stream uint32, p []byte, end bool) []byte {
	flags := http2.Flags(0)
	if end {
		flags = http2.FlagDataEndStream
	}
	return append(appendFrame(dst, len(p), http2.FrameData, flags, stream), p...)
}

// appendBlock appends a header block as HEADERS and as many CONTINUATION as it takes.
func appendBlock(dst []byte, stream uint32, block []byte, end bool) []byte {
	kind, flags := http2.FrameHeaders, http2.Flags(0)
	if end {
		flags = http2.FlagHeadersEndStream
	}
	for {
		part := block[:min(len(block), maxFrame)]
		if block = block[len(part):]; len(block) == 0 {
			flags |= http2.FlagHeadersEndHeaders
		}
		dst = append(appendFrame(dst, len(part), kind, flags, stream), part...)
		if len(block) == 0 {
			return dst
		}
		kind, flags = http2.FrameContinuation, 0
	}
}
