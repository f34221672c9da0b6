package api

import "time"

// NotifierStatus is the state of one notifier. Counts are since the start of this process.
type NotifierStatus struct {
	Name        string     `json:"name"`
	Type        string     `json:"type"`
	Queue       int        `json:"queue"`                 // events that wait, those under way included
	LastSuccess *time.Time `json:"lastSuccess,omitempty"` // absent: none since the start
	LastTry     *time.Time `json:"lastTry,omitempty"`
	LastError   string     `json:"lastError,omitempty"` // of the newest try; absent: it was a success
	NextTry     *time.Time `json:"nextTry,omitempty"`   // absent: nothing waits for another try
	Failures    int        `json:"failures"`            // tries in a row that failed
	Sent        uint64     `json:"sent"`                // messages
	Failed      uint64     `json:"failed"`              // tries
	Lost        uint64     `json:"lost"`                // events given up
}

// NotifyTest is what came of a test message.
type NotifyTest struct {
	Name    string  `json:"name"`
	OK      bool    `json:"ok"`
	ID      string  `json:"id"`               // of the message, as in its Steer-Event-Id
	Status  int     `json:"status"`           // HTTP; 0: no answer
	Answer  string  `json:"answer,omitempty"` // its first part, without keys
	Error   string  `json:"error,omitempty"`
	Seconds float64 `json:"seconds"`
}
