package main

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"syscall"

	"github.com/rogpeppe/go-internal/testscript"

	"steerpoint/geo/geotest"
)

// geofile writes a database of geotest's golden list: geofile FORMAT FILE [moved]. In a moved one 14.16.0.0/17 went from
// China Telecom to China Unicom.
func geofile() {
	if err := writeGeoFile(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "geofile:", err)
		os.Exit(1)
	}
}

func writeGeoFile(args []string) error {
	if len(args) < 2 {
		return errors.New("usage: geofile FORMAT FILE [moved]")
	}
	list := geotest.Golden()
	if len(args) > 2 {
		i := slices.IndexFunc(list, func(r geotest.Range) bool { return r.City.EN == "Guangzhou" })
		list[i].ISP, list[i].ASN = geotest.Name{EN: "China Unicom", ZH: "联通"}, 4837
	}
	write, ok := map[string]func() []byte{
		"ipdb": func() []byte { return geotest.IPDB(list, geotest.QQWry()) },
		"xdb":  func() []byte { return geotest.XDB(list, 3, 4) },
		"xdb6": func() []byte { return geotest.XDB(list, 3, 6) },
		"db":   func() []byte { return geotest.DB(list) },
		"csv":  func() []byte { return geotest.CSV(list, false) },
	}[args[0]]
	if !ok {
		return fmt.Errorf("no format %q", args[0])
	}
	return os.WriteFile(args[1], write(), 0o600)
}

// hangup sends SIGHUP to the background process that has a word among its arguments.
func hangup(ts *testscript.TestScript, _ bool, args []string) {
	if len(args) != 1 {
		ts.Fatalf("usage: hangup WORD")
	}
	for _, c := range ts.BackgroundCmds() {
		if slices.Contains(c.Args, args[0]) {
			ts.Check(c.Process.Signal(syscall.SIGHUP))
			return
		}
	}
	ts.Fatalf("no background process has %q among its arguments", args[0])
}
