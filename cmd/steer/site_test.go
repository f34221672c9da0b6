package main

import (
	"encoding/json"
	"fmt"
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
