// Command h2spec is the origin that the gateway has while h2spec is run against it (run.sh): it reads a request to its end and answers with
// a kilobyte.
//
// Usage: h2spec ADDR.
package main

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"os"
	"time"
)

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: h2spec ADDR")
		os.Exit(2)
	}
	body := bytes.Repeat([]byte("x"), 1024)
	s := &http.Server{Addr: os.Args[1], ReadHeaderTimeout: time.Minute, Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if _, err := io.Copy(io.Discard, r.Body); err == nil {
			_, _ = w.Write(body) // whoever left needs none
		}
	})}
	fmt.Fprintln(os.Stderr, "h2spec:", s.ListenAndServe())
	os.Exit(1)
}
