package spec

// Notifier says where news goes: to a webhook of yours, or to a robot of a chat group. What proves who we are, and the
// URL of a chat robot, which is a key itself, are in a Secret or in files on control's machine, and never in the resource.
type Notifier struct {
	Name string `json:"-"` // the resource's name

	Type              string            `json:"type" required:"true" enum:"webhook,slack,dingtalk,feishu,wecom" doc:"who reads it: JSON for a program of yours, or a robot of a chat group"`
	URL               string            `json:"url" doc:"where a webhook is posted to; http or https, and without a key in it. For a chat robot write urlFrom or urlFile"`
	URLFrom           *SecretRef        `json:"urlFrom" doc:"value of a Secret that is the URL, for one that is a key itself"`
	URLFile           string            `json:"urlFile" doc:"file that holds the URL, for one that is a key itself; see secretFile"`
	SecretFile        string            `json:"secretFile" doc:"file that holds the key messages are signed with (webhook, dingtalk, feishu): an absolute path on control's machine, or one within the data folder; mode 0600"`
	SecretFrom        *SecretRef        `json:"secretFrom" doc:"value of a Secret that messages are signed with, instead of secretFile"`
	AuthorizationFile string            `json:"authorizationFile" doc:"file that holds the value of the Authorization header (webhook); see secretFile"`
	AuthorizationFrom *SecretRef        `json:"authorizationFrom" doc:"value of a Secret that is the Authorization header (webhook), instead of authorizationFile"`
	On                []string          `json:"on" default:"switch,mass,expiry,alarm" enum:"switch,verdict,mass,expiry,alarm" doc:"what is told: switches, verdicts of edges, many rules switching at once, certificates and overrides that end, every other alarm"`
	Services          []string          `json:"services" maxItems:"1000" format:"label" dynamic:"all, and what belongs to none" doc:"only what is about these services"`
	Headers           map[string]string `json:"headers" doc:"headers added to the request (webhook), at most 20"`
	Language          string            `json:"language" default:"en" enum:"en,zh" doc:"language of the text"`
}

// Chat reports whether the messages go to a robot of a chat group.
func (n *Notifier) Chat() bool { return n.Type != "webhook" }
