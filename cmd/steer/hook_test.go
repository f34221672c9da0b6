package main

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"sync"
	"time"
)

// hook is the program `hook ADDR:PORT KEYFILE LOGFILE BROKENFILE`: a webhook's receiver. Of each message with the right
// signature it logs ID, kind and title. While the last file is there, it answers 503 and logs nothing.
func hook() {
	if len(os.Args) != 5 {
		fmt.Fprintln(os.Stderr, "usage: hook ADDR:PORT KEYFILE LOGFILE BROKENFILE")
		os.Exit(2)
	}
	key, err := os.ReadFile(os.Args[2])
	log, logErr := os.OpenFile(os.Args[3], os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil || logErr != nil {
		fmt.Fprintln(os.Stderr, "hook:", err, logErr)
		os.Exit(1)
	}
	var mu sync.Mutex
	s := &http.Server{Addr: os.Args[1], ReadHeaderTimeout: time.Minute, Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		t, sum, _ := strings.Cut(strings.TrimPrefix(r.Header.Get("Steer-Signature"), "t="), ",v1=")
		mac := hmac.New(sha256.New, []byte(strings.TrimSpace(string(key))))
		fmt.Fprintf(mac, "%s.%s", t, body)
		var m struct{ ID, Kind, Title string }
		if err != nil || hex.EncodeToString(mac.Sum(nil)) != sum || json.Unmarshal(body, &m) != nil {
			http.Error(w, "wrong signature", http.StatusForbidden)
			return
		}
		if _, err := os.Stat(os.Args[4]); err == nil {
			http.Error(w, "out of order", http.StatusServiceUnavailable)
			return
		}
		mu.Lock()
		defer mu.Unlock()
		fmt.Fprintln(log, m.ID, m.Kind, m.Title)
		fmt.Fprintln(w, "taken", m.ID)
	})}
	fmt.Fprintln(os.Stderr, "hook:", s.ListenAndServe())
	os.Exit(1)
}
