package control

import (
	"path/filepath"

	"steerpoint/control/api"
	"steerpoint/control/internal/resolve"
)

// resolvedFile keeps the addresses of names elsewhere.
const resolvedFile = "resolved.state"

// openResolver makes what finds the addresses of names elsewhere, with those it found before a restart.
func (c *Control) openResolver() {
	c.resolver = resolve.New(resolve.Config{
		Servers: c.cfg.Resolvers, File: filepath.Join(c.cfg.Data, resolvedFile), Log: c.log,
		Changed:  c.answers.mark,
		Failing:  func(name string, on bool, message string) { c.alarms.set(api.AlarmAlias, name, on, message) },
		Exchange: c.deps.exchange,
	})
}

// CheckResolver says what is wrong with ADDR or ADDR:PORT of a resolver.
func CheckResolver(s string) error {
	_, err := resolve.Server(s)
	return err
}
