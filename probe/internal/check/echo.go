package check

import (
	"context"
	"crypto/rand"
	"fmt"

	"steerpoint/report"
)

const (
	// echoSize is that of the datagrams of kind udp16: too small to be of use to anyone who forges its sender, and
	// large enough that nobody who does not see it can guess it.
	echoSize = 16
	// wrongLimit is after how many wrong answers a probe ends: so many are a service that answers something else, or a
	// flood, and neither is worth more of this point's processor.
	wrongLimit = 256
)

// echo sends one datagram and waits for the same bytes to come back. Nothing is sent twice: a lost one is a failure,
// for loss is what is measured.
func (p *probe) echo(ctx context.Context) error {
	conn, err := p.connect(ctx, "udp")
	if err != nil {
		return err
	}
	defer conn.Close() // what could still come is not wanted
	defer p.bound(ctx, conn)()
	var sent [echoSize]byte
	rand.Read(sent[:]) // never fails
	var got [echoSize + 1]byte
	ignored, err := p.trade(conn, sent[:], got[:], func(answer []byte) bool { return string(answer) == string(sent[:]) })
	if err != nil {
		return err
	}
	p.roundTrip()
	if ignored > 0 {
		p.o.Detail = wrongAnswers(ignored)
	}
	return nil
}

// stream is what trade needs of a socket: one datagram a call.
type stream interface {
	Read(b []byte) (int, error)
	Write(b []byte) (int, error)
}

// trade sends a datagram and reads into buf until one comes that right takes. Others are ignored and counted.
func (p *probe) trade(conn stream, sent, buf []byte, right func(answer []byte) bool) (ignored int, err error) {
	p.phase = "sending"
	if _, err := conn.Write(sent); err != nil {
		return 0, p.datagramFailure(err, 0)
	}
	p.phase = "waiting for the answer"
	for {
		n, err := conn.Read(buf)
		switch {
		case err != nil:
			return ignored, p.datagramFailure(err, ignored)
		case right(buf[:n]):
			return ignored, nil
		}
		if ignored++; ignored >= wrongLimit {
			return ignored, failf(report.CauseProtocol, "%s sent %d datagrams, and none is the answer", p.o.Address.Addr(), ignored)
		}
	}
}

// roundTrip ends the phase between a datagram and its answer, which is all the latency there is.
func (p *probe) roundTrip() {
	p.o.Phases.FirstByte = p.lap()
	p.o.Latency = p.o.Phases.FirstByte
}

func wrongAnswers(n int) string {
	if n == 1 {
		return "1 wrong answer was ignored"
	}
	return fmt.Sprintf("%d wrong answers were ignored", n)
}

// datagramFailure names why no answer came. A connected socket hears of ICMP errors at the next call.
func (p *probe) datagramFailure(err error, ignored int) error {
	if !isTimeout(err) {
		return p.connectFailure(err)
	}
	if ignored == 0 {
		return err
	}
	return failf(report.CauseTimeout, "no result within %v, while %s; %s", p.timeout, p.phase, wrongAnswers(ignored))
}
