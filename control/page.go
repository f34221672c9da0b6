package control

import (
	"bytes"
	"html/template"
	"net/http"
	"time"

	"steerpoint/control/internal/web"
)

// pageTemplate is the status page: read-only, no script, nothing loaded from elsewhere. html/template escapes every
// value: names and reasons come from operators.
var pageTemplate = template.Must(template.New("status").Funcs(template.FuncMap{
	"ago": func(now, t time.Time) string { return now.Sub(t).Truncate(time.Second).String() },
}).Parse(`<!DOCTYPE html>
<html lang="en"><head><meta charset="utf-8"><meta http-equiv="refresh" content="5"><title>steer: status</title><style>
body{font:14px/1.5 system-ui,sans-serif;margin:2em auto;max-width:70em;padding:0 1em;color:#222;background:#fff}
table{border-collapse:collapse;width:100%;margin:.5em 0 2em}th,td{text-align:left;padding:.3em .7em;border-bottom:1px solid #ddd;vertical-align:top}
.up{color:#06682f}.down{color:#a40e26;font-weight:600}.unknown{color:#666}.alarm{background:#fdecea;padding:.4em .7em;margin:.3em 0}
@media(prefers-color-scheme:dark){body{color:#ddd;background:#161616}.up{color:#5bd68a}.down{color:#ff8a80}.unknown{color:#999}.alarm{background:#4a1f1b}th,td{border-color:#333}}
</style></head><body>
<h1>steer {{.Version}} on {{.Node}}</h1>
<p>{{.Now.Format "2006-01-02 15:04:05"}} UTC, map {{.Map.Version}}{{if .Map.Version}}, {{ago .Now .Map.Published}} old{{end}}</p>
{{range .Alarms}}<p class="alarm"><b>{{.Code}}</b> since {{.Since.Format "15:04:05"}}: {{.Message}}</p>{{else}}<p>No alarms.</p>{{end}}
{{$now := .Now}}{{if .Nodes}}<table><tr><th>node</th><th>roles</th><th>state</th><th>map</th><th>tasks</th></tr>
{{range .Nodes}}<tr><td>{{.Name}}</td><td>{{range .Roles}}{{.}} {{end}}</td><td class="{{if eq .State "connected"}}up{{else}}down{{end}}">{{.State}}</td>
<td>{{with .Map}}{{.Version}}{{if .Error}} <span class="down">refuses {{.Refused}}: {{.Error}}</span>{{end}}{{end}}</td><td>{{with .Tasks}}{{.Tasks}}{{end}}</td></tr>{{end}}</table>{{end}}
{{range .Services}}<h2>{{.Name}}</h2><p>{{.CNAME}}{{range .Domains}} · {{.}}{{end}}</p>
<table><tr><th>rule</th><th>scope</th><th>mode</th><th>answers</th><th>since</th><th>edges</th></tr>
{{range .Rules}}<tr><td>{{.Rule}}</td><td>{{.Scope}}</td><td>{{.Mode}}</td>
<td><b>{{.Edge}}</b> ({{.Cause}}){{if .Degraded}} <span class="down">degraded</span>{{end}}{{if .Forced}} <span class="down">forced</span>{{end}}{{if .Frozen}} <span class="down">frozen</span>{{end}}{{if .Locked}} locked{{end}}</td>
<td>{{ago $now .Since}}</td><td>{{range .Edges}}<div><span class="{{.Verdict}}">{{.Edge}} {{.Verdict}}</span> · {{.Why}}</div>{{end}}</td></tr>{{end}}</table>
{{else}}<p>No services yet: <code>steer apply -f FILE</code></p>{{end}}
</body></html>
`))

// page is the status page.
func (c *Control) page(w http.ResponseWriter, r *http.Request) {
	s, err := c.status(r.Context(), "")
	if err != nil {
		web.WriteProblem(w, asProblem(err))
		return
	}
	var b bytes.Buffer
	if err := pageTemplate.Execute(&b, s); err != nil {
		web.WriteProblem(w, asProblem(err))
		return
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	if r.Method == http.MethodHead {
		return
	}
	_, _ = w.Write(b.Bytes()) // the client is gone: nobody to tell
}
