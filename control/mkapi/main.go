// Command mkapi writes the description of the HTTP API to a file. Make api runs it; the server makes its own each time it
// starts, from the same types.
package main

import (
	"flag"
	"fmt"
	"os"

	"steerpoint/control"
)

func main() {
	out := flag.String("out", "control/api/openapi.json", "`file` to write")
	flag.Parse()
	if err := write(*out); err != nil {
		fmt.Fprintln(os.Stderr, "mkapi:", err)
		os.Exit(1)
	}
}

func write(path string) error {
	b, err := control.OpenAPI()
	if err != nil {
		return err
	}
	return os.WriteFile(path, b, 0o644)
}
