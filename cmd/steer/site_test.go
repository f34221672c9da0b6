package main

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"slices"
	"strings"
	"time"

	"steerpoint/control/api"
)

// site is the program `site ADDR:PORT...`: an edge that answers 200 on each address until it is killed.
func site() {
	failed := make(chan error)
	for _, addr := range os.Args[1:] {
		s := &http.Server{Addr: addr, ReadHeaderTimeout: time.Minute, Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			fmt.Fprintln(w, r.Host, "at", addr)
		})}
		go func() { failed <- s.ListenAndServe() }()
	}
	fmt.Fprintln(os.Stderr, "site:", <-failed)
	os.Exit(1)
}

// fetch is the program `fetch URL HOST [h2]`: it asks for a URL under another name and prints status, Location and body; h2: by HTTP/2.
func fetch() {
	if err := fetchOnce(os.Args[1], os.Args[2]); err != nil {
		fmt.Fprintln(os.Stderr, "fetch:", err)
		os.Exit(1)
	}
}

func fetchOnce(url, host string) error {
	req, err := http.NewRequest(http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	req.Host = host
	c := &http.Client{Timeout: 30 * time.Second, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	if len(os.Args) > 3 && os.Args[3] == "h2" { // without TLS
		two := new(http.Protocols)
		two.SetUnencryptedHTTP2(true)
		c.Transport = &http.Transport{Protocols: two}
	}
	resp, err := c.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	fmt.Println(resp.StatusCode, resp.Header.Get("Location")+string(body))
	return err
}

// points is the program `points RULE`: the probe points of a rule of the service shop on one line, in the order of their
// names.
func points() {
	out, err := exec.Command("steer", "status", "shop", "-o", "json").Output()
	var s api.Status
	if err == nil {
		err = json.Unmarshal(out, &s)
	}
	if err != nil || len(s.Services) != 1 || len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "points:", err)
		os.Exit(1)
	}
	for _, r := range s.Services[0].Rules {
		if r.Rule == os.Args[1] {
			slices.Sort(r.Points)
			fmt.Println(strings.Join(r.Points, " "))
		}
	}
}
