package main

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"time"

	otlp "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"
)

// proxied is the program `proxied ADDR CLIENT HOST`: it asks the gateway at ADDR for / as a proxy does that passes a client's
// connection on, and prints status, Server-Timing and body.
func proxied() {
	if err := proxiedOnce(os.Args[1], os.Args[2], os.Args[3]); err != nil {
		fmt.Fprintln(os.Stderr, "proxied:", err)
		os.Exit(1)
	}
}

func proxiedOnce(addr, client, host string) error {
	c, err := net.Dial("tcp", addr)
	if err != nil {
		return err
	}
	defer c.Close()
	if err := c.SetDeadline(time.Now().Add(30 * time.Second)); err != nil {
		return err
	}
	if _, err := fmt.Fprintf(c, "PROXY TCP4 %s 198.51.100.1 4711 80\r\nGET / HTTP/1.1\r\nHost: %s\r\n\r\n", client, host); err != nil {
		return err
	}
	resp, err := http.ReadResponse(bufio.NewReader(c), &http.Request{Method: http.MethodGet})
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	fmt.Println(resp.StatusCode, resp.Header.Get("Server-Timing"), string(body))
	return err
}

// collector is the program `collector ADDR FILE`: it takes spans by OTLP over HTTP and appends their names to a file.
func collector() {
	err := http.ListenAndServe(os.Args[1], http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if err := collectInto(os.Args[2], r.Body); err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
		}
	}))
	fmt.Fprintln(os.Stderr, "collector:", err)
	os.Exit(1)
}

func collectInto(file string, r io.Reader) error {
	body, err := io.ReadAll(r)
	if err != nil {
		return err
	}
	var data otlp.TracesData
	if err := proto.Unmarshal(body, &data); err != nil {
		return err
	}
	f, err := os.OpenFile(file, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer f.Close()
	for _, resource := range data.ResourceSpans {
		for _, scope := range resource.ScopeSpans {
			for _, s := range scope.Spans {
				fmt.Fprintln(f, s.Kind, s.Name)
			}
		}
	}
	return nil
}
