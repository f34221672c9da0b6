package demo

import (
	"bytes"
	_ "embed"
	"strconv"
)

//go:embed demo.yaml
var resources []byte

// Resources is the YAML the demo applies to an empty store: a steering zone and the service `shop` on the demo
// edges, probed on their port.
func (d *Demo) Resources() []byte {
	return bytes.ReplaceAll(resources, []byte("PORT"), []byte(strconv.Itoa(d.port)))
}
