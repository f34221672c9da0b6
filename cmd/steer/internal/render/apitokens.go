package render

import (
	"fmt"
	"io"
	"strings"
	"time"

	"steerpoint/cmd/steer/internal/text"
	"steerpoint/control/api"
)

// APITokens writes one line a token of the API; none has its secret.
func APITokens(w io.Writer, p text.Painter, now time.Time, list []api.APITokenView) {
	if len(list) == 0 {
		fmt.Fprintln(w, "no token of the API: make one with `steer token create --api --role viewer --name NAME`")
		return
	}
	var t text.Table
	t.Row("NAME", "ID", "ROLE", "SERVICES", "STATE", "ENDS", "LAST USED", "MADE", "BY")
	for _, k := range list {
		state := text.Cell{Text: k.State}
		if k.State == api.TokenOpen {
			state.Color = text.Good
		}
		services, ends, used := "all", "never", "never"
		if len(k.Services) > 0 {
			services = strings.Join(k.Services, ",")
		}
		if k.Expires != nil {
			ends = text.Ago(now, *k.Expires)
		}
		if k.LastUsed != nil {
			used = text.Ago(now, *k.LastUsed)
		}
		t.Row(k.Name, k.ID, k.Role, services, state, ends, used, text.Ago(now, k.Created), dash(k.Actor))
	}
	t.Write(w, p, "")
}
