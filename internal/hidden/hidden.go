// Package hidden holds texts that nobody may see: whatever a Text is printed, encoded or logged by, Mark stands there.
// Only Reveal gives the text itself, so that a search for Reveal finds every place where one leaves.
package hidden

import (
	"crypto/subtle"
	"fmt"
	"io"
	"log/slog"
)

// Mark stands wherever a hidden text would be shown.
const Mark = "[secret]"

// Text is a text that does not show. The zero value is empty.
//
// It holds a pointer, so that also %v of a struct with a Text in an unexported field, where package fmt calls no methods,
// shows an address and not the text. Texts are values: a copy may be handed on, and nothing changes one.
type Text struct{ text *string }

// New hides a text.
func New(s string) Text { return Text{&s} }

// Reveal gives the text. Hand it only to what needs it, and keep it nowhere.
func (t Text) Reveal() string {
	if t.text == nil {
		return ""
	}
	return *t.text
}

// Len is the length in bytes.
func (t Text) Len() int { return len(t.Reveal()) }

// Equal compares in a time that depends on the lengths alone.
func (t Text) Equal(o Text) bool {
	return subtle.ConstantTimeCompare([]byte(t.Reveal()), []byte(o.Reveal())) == 1
}

// String is Mark.
func (Text) String() string { return Mark }

// GoString is Mark.
func (Text) GoString() string { return Mark }

// Format writes Mark, whatever the verb.
func (Text) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, Mark) } // fmt keeps the error itself

// MarshalText gives Mark, for every encoder that asks.
func (Text) MarshalText() ([]byte, error) { return []byte(Mark), nil }

// MarshalJSON gives Mark.
func (Text) MarshalJSON() ([]byte, error) { return []byte(`"` + Mark + `"`), nil }

// LogValue is Mark.
func (Text) LogValue() slog.Value { return slog.StringValue(Mark) }

// UnmarshalText takes a text in.
func (t *Text) UnmarshalText(text []byte) error {
	*t = New(string(text))
	return nil
}
