package demo

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

// Behaviour is how one address of a demo edge treats its visitors. The zero value is a healthy edge.
type Behaviour struct {
	// Down closes the listener and every connection: visitors are refused, as by a crashed server.
	Down bool `json:"down,omitempty"`
	// Delay is waited before each response; 0: none.
	Delay time.Duration `json:"delay,omitempty"`
	// Lose is the percentage of requests that never get a response, 0 to 100.
	Lose int `json:"lose,omitempty"`
	// Status replaces 200; 0: 200.
	Status int `json:"status,omitempty"`
}

// String is the behaviour in a few words: "healthy", "down", "300ms slower, loses 30%".
func (b Behaviour) String() string {
	if b.Down {
		return "down"
	}
	var parts []string
	if b.Delay > 0 {
		parts = append(parts, b.Delay.String()+" slower")
	}
	if b.Lose > 0 {
		parts = append(parts, "loses "+strconv.Itoa(b.Lose)+"%")
	}
	if b.Status != 0 {
		parts = append(parts, "answers "+strconv.Itoa(b.Status))
	}
	if len(parts) == 0 {
		return "healthy"
	}
	return strings.Join(parts, ", ")
}

// maxDelay bounds Delay: a longer one is a lost request, and Lose says that better.
const maxDelay = time.Minute

// Validate names the first field outside its range.
func (b Behaviour) Validate() error {
	switch {
	case b.Delay < 0 || b.Delay > maxDelay:
		return fmt.Errorf("delay %v is not between 0s and %v", b.Delay, maxDelay)
	case b.Lose < 0 || b.Lose > 100:
		return fmt.Errorf("lose %d is not a percentage from 0 to 100", b.Lose)
	case b.Status != 0 && (b.Status < 200 || b.Status > 599):
		return fmt.Errorf("status %d is not an HTTP status from 200 to 599", b.Status)
	}
	return nil
}
