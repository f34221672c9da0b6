package edge

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"strings"

	"steerpoint/edge/internal/direct"
	"steerpoint/edge/internal/h1"
	"steerpoint/edge/internal/pool"
)

// healthMessage is the longest answer to a health check, which holds one number, in octets.
const healthMessage = 1 << 10

// askHealth asks for the health that a server of gRPC tells (grpc.health.v1.Health/Check). status is 200 for SERVING, 503 for any other
// answer, and that of HTTP where it is no call.
func askHealth(up *pool.Conn, e *direct.Endpoint) (status int, err error) {
	if up.Stream == nil {
		return 0, errors.New("health check: gRPC needs HTTP/2")
	}
	head := fmt.Appendf(nil, "POST /grpc.health.v1.Health/Check HTTP/1.1\r\nHost: %s\r\nUser-Agent: Steerpoint (health probe)\r\n"+
		"X-FD-HealthProbe: 1\r\nContent-Type: application/grpc\r\n\r\n", probeHost(e))
	taken, err := up.Stream.Send(head, healthRequest(strings.TrimPrefix(e.Path, "/")), true)
	if err == nil && !taken {
		err = errors.New("there is no window for it")
	}
	if err != nil {
		return 0, fmt.Errorf("send probe: %w", err)
	}
	var r h1.Response
	for r.Status < 200 {
		if err := up.Response(&r, false); err != nil {
			return 0, fmt.Errorf("read response: %w", err)
		}
	}
	if r.Status != 200 {
		return r.Status, nil
	}
	var body []byte
	for {
		part, err := up.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return 0, fmt.Errorf("read body: %w", err)
		}
		if body = append(body, part...); len(body) > healthMessage {
			return 0, errors.New("the body is no answer to a health check")
		}
	}
	var trailer h1.Head
	if err := up.Trailer(&trailer); err != nil {
		return 0, fmt.Errorf("read trailer: %w", err)
	}
	if code, _ := trailer.Field("grpc-status", 0); string(code) == "0" && saysServing(body) {
		return 200, nil
	}
	return 503, nil
}

// healthRequest is a HealthCheckRequest behind its prefix: not compressed, and its length. Field 1 is the service; proto3 leaves out
// an empty one.
func healthRequest(service string) []byte {
	var message []byte
	if service != "" {
		message = append(binary.AppendUvarint([]byte{1<<3 | 2}, uint64(len(service))), service...)
	}
	return append(binary.BigEndian.AppendUint32([]byte{0}, uint32(len(message))), message...)
}

// saysServing reports whether a HealthCheckResponse says SERVING: its field 1 is 1. Fields are read as far as the one that counts; no
// later version of the message puts others before it.
func saysServing(body []byte) bool {
	return len(body) >= 7 && body[0] == 0 && int(binary.BigEndian.Uint32(body[1:5])) == len(body)-5 && body[5] == 1<<3 && body[6] == 1
}
