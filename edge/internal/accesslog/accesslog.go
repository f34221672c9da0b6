// Package accesslog writes a line for each request without holding requests up: lines are gathered and written by a
// goroutine of the log, and counted as lost when the writer cannot keep up.
package accesslog

import (
	"bytes"
	"context"
	"io"
	"strconv"
	"sync"
	"sync/atomic"
	"time"
	"unicode/utf8"
)

const (
	// every is how long a line waits at most; batch is how much is gathered before it is written sooner.
	every = 200 * time.Millisecond
	batch = 64 << 10
	// most is what is gathered while the writer does not take it. More is lost.
	most = 4 << 20
)

// Log gathers lines. Its methods may be called by many goroutines.
type Log struct {
	w    io.Writer
	wake chan struct{}
	lost atomic.Uint64

	mu    sync.Mutex
	lines []byte
	spare []byte
}

// New makes a log. w nil: lines are thrown away.
func New(w io.Writer) *Log { return &Log{w: w, wake: make(chan struct{}, 1)} }

// On reports whether lines are wanted.
func (l *Log) On() bool { return l.w != nil }

// Lost is how many lines were lost.
func (l *Log) Lost() uint64 { return l.lost.Load() }

// Write takes a line, which ends with LF.
func (l *Log) Write(line []byte) {
	if l.w == nil {
		return
	}
	l.mu.Lock()
	fits := len(l.lines)+len(line) <= most
	if fits {
		l.lines = append(l.lines, line...)
	}
	full := len(l.lines) >= batch
	l.mu.Unlock()
	if !fits {
		l.lost.Add(1)
	}
	if full {
		select {
		case l.wake <- struct{}{}:
		default:
		}
	}
}

// Run writes lines until ctx ends, and then those that are left.
func (l *Log) Run(ctx context.Context) {
	tick := time.NewTicker(every)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			l.flush()
			return
		case <-tick.C:
		case <-l.wake:
		}
		l.flush()
	}
}

func (l *Log) flush() {
	l.mu.Lock()
	lines := l.lines
	l.lines = l.spare[:0]
	l.mu.Unlock()
	if len(lines) > 0 && l.w != nil {
		if n, err := l.w.Write(lines); err != nil { // there is nobody to tell but the counter
			l.lost.Add(uint64(bytes.Count(lines[n:], []byte{'\n'})))
		}
	}
	l.mu.Lock()
	l.spare = lines
	l.mu.Unlock()
}

const hexDigits = "0123456789abcdef"

// AppendString appends a string of JSON. Octets that are not UTF-8 become U+FFFD.
func AppendString(dst, s []byte) []byte {
	dst = append(dst, '"')
	plain := 0
	for i := 0; i < len(s); {
		o := s[i]
		if o >= ' ' && o != '"' && o != '\\' && o < utf8.RuneSelf {
			i++
			continue
		}
		size := 1
		if o >= utf8.RuneSelf {
			var r rune
			if r, size = utf8.DecodeRune(s[i:]); r != utf8.RuneError || size > 1 {
				i += size
				continue
			}
		}
		dst = append(dst, s[plain:i]...)
		dst = appendEscape(dst, o)
		i += size
		plain = i
	}
	dst = append(dst, s[plain:]...)
	return append(dst, '"')
}

func appendEscape(dst []byte, o byte) []byte {
	switch {
	case o == '"' || o == '\\':
		return append(dst, '\\', o)
	case o >= utf8.RuneSelf:
		return append(dst, `\ufffd`...)
	}
	return append(dst, '\\', 'u', '0', '0', hexDigits[o>>4], hexDigits[o&0xF])
}

// AppendMillis appends a duration in milliseconds with three digits after the point.
func AppendMillis(dst []byte, d time.Duration) []byte {
	us := max(0, d.Microseconds())
	dst = strconv.AppendInt(dst, us/1000, 10)
	us %= 1000
	return append(dst, '.', byte('0'+us/100), byte('0'+us/10%10), byte('0'+us%10))
}
