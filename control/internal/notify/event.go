package notify

import (
	"strings"
	"time"
	"unicode"
	"unicode/utf8"
)

// Kinds of events, as resources name them.
const (
	KindSwitch  = "switch"
	KindVerdict = "verdict"
	KindMass    = "mass"
	KindExpiry  = "expiry"
	KindAlarm   = "alarm"
)

// Kinds of messages beside those of a single event.
const (
	kindDigest = "digest"
	kindTest   = "test"
)

// Event is one piece of news. Its JSON is part of what webhooks receive.
type Event struct {
	ID      string    `json:"id"` // unique; the same news has the same ID after a restart
	Time    time.Time `json:"time"`
	Kind    string    `json:"kind"`
	Service string    `json:"service,omitempty"`
	Rule    string    `json:"rule,omitempty"`
	Scope   string    `json:"scope,omitempty"`
	Edge    string    `json:"edge,omitempty"` // of a verdict
	From    string    `json:"from,omitempty"` // edges of a switch, verdicts of a verdict
	To      string    `json:"to,omitempty"`
	Cause   string    `json:"cause,omitempty"`   // of a switch
	Code    string    `json:"code,omitempty"`    // of an alarm
	Subject string    `json:"subject,omitempty"` // what an alarm is about
	On      bool      `json:"on,omitempty"`      // an alarm began; false: it is over
	Message string    `json:"message"`
	// DetectionSeconds is the first failure to the decision; 0: no failure was the cause.
	DetectionSeconds float64      `json:"detectionSeconds,omitempty"`
	Publication      *Publication `json:"publication,omitempty"` // absent: not through when the message was made
	// Not names a target that is not to hear it; "": none.
	Not string `json:"-"`
}

// Publication tells when name servers answered by a switch.
type Publication struct {
	Seconds      float64  `json:"seconds"` // decision to the last acknowledgement
	MapVersion   uint64   `json:"mapVersion"`
	Acked        int      `json:"acked"` // name servers
	Missing      []string `json:"missing,omitempty"`
	MissingCount int      `json:"missingCount,omitempty"` // those that had not acknowledged after 30 s
}

// alarm is what an event of an alarm is about; "" for other events.
func (e *Event) alarm() string {
	if e.Code == "" {
		return ""
	}
	return e.Code + " " + e.Subject
}

const (
	maxText    = 1000 // bytes of a sentence: reasons name every point that saw something
	maxWord    = 200  // bytes of a name
	maxMissing = 8    // name servers named with one switch
)

// trim bounds an event: texts of it come from edges and from people.
func (e *Event) trim() {
	for _, s := range []*string{&e.ID, &e.Service, &e.Rule, &e.Scope, &e.Edge, &e.From, &e.To, &e.Cause, &e.Code, &e.Subject} {
		*s = cut(*s, maxWord)
	}
	e.Message = cut(clean(e.Message), maxText)
	if p := e.Publication; p != nil && len(p.Missing) > maxMissing {
		short := *p
		short.Missing = p.Missing[:maxMissing]
		e.Publication = &short
	}
}

// clean makes one line of a text and drops what is no character to read: controls, and marks that turn the direction.
func clean(s string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r == '\n' || r == '\t':
			return ' '
		case unicode.IsControl(r) || unicode.Is(unicode.Bidi_Control, r) || r == utf8.RuneError:
			return -1
		}
		return r
	}, s)
}

// cut shortens a text to at most n bytes, between characters, and marks it.
func cut(s string, n int) string {
	const mark = "…"
	if len(s) <= n {
		return s
	}
	n = max(n-len(mark), 0)
	for n > 0 && !utf8.RuneStart(s[n]) {
		n--
	}
	return s[:n] + mark
}
