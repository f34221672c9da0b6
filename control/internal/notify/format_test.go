package notify

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"
	"unicode/utf8"
)

// TestSignatures: the values are those another program computed for the same key and time, by the pages of DingTalk and
// Feishu.
//
// Covers: issue4 notifications
func TestSignatures(t *testing.T) {
	now := time.Unix(1_700_000_000, 0)
	u, err := url.Parse("https://oapi.dingtalk.example/robot/send?access_token=a%2Bb")
	if err != nil {
		t.Fatal(err)
	}
	signDingTalk(u, testSecret, now)
	q := u.Query()
	if q.Get("timestamp") != "1700000000000" || q.Get("sign") != "N5P09a4+p1AMJIJWnIvQd2Yxw9+fu/oEBnPrjCcsLXk=" || q.Get("access_token") != "a+b" {
		t.Errorf("DingTalk: %s", u)
	}
	if strings.ContainsAny(u.RawQuery, "+/ ") {
		t.Errorf("DingTalk: %s is not encoded", u.RawQuery)
	}
	if at, sign := signFeishu(testSecret, now); at != "1700000000" || sign != "UqhI0v4zAkSwI4hNYBuHQvnrAqshA0UaeBGHCUMPX70=" {
		t.Errorf("Feishu: %s %s", at, sign)
	}
	want := "t=1700000000,v1=13a8c047204b69b5a06bf033eb3d5080a50d01dd7e96d5619f0c1641ddbccdbc"
	if got := signature(testSecret, now, []byte(`1{"a":1}`)[1:]); got != want {
		t.Errorf("webhook: %s", got)
	}
}

// hostile is an event whose texts try to be markup, mentions and more than anybody wants.
func hostile(n int) Event {
	e := switched(n)
	e.Message = "<!channel> <@U1> @all [x](https://evil.example) `a`\u202e\x07 & " + strings.Repeat("界", 2000)
	e.Scope = strings.Repeat("国", 300)
	e.trim()
	return e
}

// TestBodies: the body of each type, its limits and that nothing from outside becomes markup.
//
// Covers: issue4 notifications
func TestBodies(t *testing.T) {
	now := time.Unix(1_700_000_000, 0)
	var storm []Event
	for n := range 400 {
		storm = append(storm, hostile(n))
	}
	for _, typ := range []string{typeWebhook, typeSlack, typeDingTalk, typeFeishu, typeWeCom} {
		for _, lang := range []string{"en", "zh"} {
			for kind, events := range map[string][]Event{KindSwitch: {hostile(1)}, kindDigest: storm, kindTest: nil} {
				m := &message{id: "id1", kind: kind, at: now, lost: 3, events: events, from: From{"c1", "n1"}, language: lang}
				to := &Target{Type: typ}
				body, err := to.encode(m, testSecret, now, &url.URL{Scheme: "https", Host: "h", Path: "/"})
				if err != nil {
					t.Fatal(err)
				}
				what := fmt.Sprint(typ, " ", lang, " ", kind)
				checkBody(t, what, typ, body)
				noSecrets(t, what, string(body))
				if han := strings.Contains(string(body), "消息"); han != (lang == "zh") {
					t.Errorf("%s: language: %.300s", what, body)
				}
			}
		}
	}
}

func checkBody(t *testing.T, what, typ string, body []byte) {
	t.Helper()
	var b struct {
		MsgType  string `json:"msgtype"`
		Text     any    `json:"text"`
		Markdown struct{ Title, Content, Text string }
		FeishuBody
	}
	if err := json.Unmarshal(body, &b); err != nil {
		t.Fatalf("%s: %v", what, err)
	}
	text, _ := b.Text.(string)
	limit := map[string]int{typeSlack: maxSlack, typeDingTalk: maxDingTalk, typeWeCom: 2048}[typ]
	switch typ {
	case typeWebhook:
		if len(body) > maxWebhook {
			t.Errorf("%s: %d bytes", what, len(body))
		}
		return
	case typeFeishu:
		if len(body) > 20_000 || b.Sign == "" || b.Timestamp != "1700000000" || b.Content.Post.ZhCN.Title == "" || b.MsgTypeF != "post" {
			t.Errorf("%s: %d bytes: %.300s", what, len(body), body)
		}
		return
	case typeDingTalk:
		text = b.Markdown.Text
	case typeWeCom:
		text = b.Markdown.Content
	}
	if text == "" || len(text) > limit || !utf8.ValidString(text) {
		t.Errorf("%s: %d bytes of text", what, len(text))
	}
	for _, bad := range []string{"<!channel>", "<@U1>", "\u202e", "\x07"} {
		if strings.Contains(text, bad) {
			t.Errorf("%s: holds %q", what, bad)
		}
	}
	if typ != typeSlack && (strings.Contains(text, "](") || strings.Contains(text, "@all")) {
		t.Errorf("%s: holds a link or a mention", what)
	}
}

// FeishuBody is what Feishu reads of a body.
type FeishuBody struct {
	MsgTypeF        string `json:"msg_type"`
	Timestamp, Sign string
	Content         struct {
		Post struct {
			ZhCN struct{ Title string } `json:"zh_cn"`
		}
	}
}

// TestAnswers: which answers of chat services are a success: the status alone says nothing.
//
// Covers: issue4 notifications
func TestAnswers(t *testing.T) {
	huge := `{"errcode":0,"code":0,"x":"` + strings.Repeat("x", 2*maxAnswer) + `"}`
	for _, row := range []struct {
		typ, body string
		ok        bool
		again     time.Duration
	}{
		{typeSlack, "ok", true, 0},
		{typeSlack, "ok\n", true, 0},
		{typeSlack, "no_service", false, 0},
		{typeSlack, "", false, 0},
		{typeDingTalk, `{"errcode":0,"errmsg":"ok"}`, true, 0},
		{typeDingTalk, `{"errcode":310000,"errmsg":"sign not match"}`, false, 0},
		{typeDingTalk, `{"errcode":130101,"errmsg":"send too fast"}`, false, 10 * time.Minute},
		{typeDingTalk, `{"code":0}`, false, 0},
		{typeDingTalk, huge, false, 0},
		{typeWeCom, `{"errcode":0,"errmsg":"ok"}`, true, 0},
		{typeWeCom, `{"errcode":93000,"errmsg":"invalid webhook url"}`, false, 0},
		{typeWeCom, `{"errcode":45009,"errmsg":"api freq out of limit"}`, false, time.Minute},
		{typeWeCom, `<html>`, false, 0},
		{typeFeishu, `{"code":0,"msg":"success","data":{}}`, true, 0},
		{typeFeishu, `{"Extra":null,"StatusCode":0,"StatusMessage":"success"}`, true, 0},
		{typeFeishu, `{"code":19021,"msg":"sign match fail or timestamp is not within one hour from current time"}`, false, 0},
		{typeFeishu, `{"code":11232,"msg":"frequency limited"}`, false, time.Minute},
		{typeFeishu, `{"code":19021,"StatusCode":0}`, false, 0},
		{typeFeishu, `{"errcode":0}`, false, 0},
		{typeFeishu, `[]`, false, 0},
		{typeWebhook, `{"errcode":1}`, true, 0},
	} {
		s := newSite(t, func(_ int, w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, row.body) })
		r := start(t, t.TempDir(), trusts(s))
		to := r.target("a", row.typ, s)
		if row.typ == typeDingTalk || row.typ == typeFeishu {
			to.SecretFile = r.key("secret", testSecret)
		}
		k, err := to.read(&r.cfg)
		if err != nil {
			t.Fatal(err)
		}
		m := &message{id: "id1", kind: KindSwitch, events: []Event{switched(1)}, language: "en"}
		got := post(t.Context(), newClient(true, r.cfg.Roots), &to, &k, m, time.Now())
		if (got.err == nil) != row.ok || got.retryAfter != row.again {
			t.Errorf("%s %.60s: %v, again after %v", row.typ, row.body, got.err, got.retryAfter)
		}
		if q := s.requests()[0].query; (row.typ == typeDingTalk) != strings.Contains(q, "&timestamp=") && row.typ == typeDingTalk {
			t.Errorf("%s: query %s", row.typ, q)
		}
		r.stop()
	}
}

// TestBrokenAnswer: an answer that ends in the middle is no success for a chat service.
//
// Covers: issue4 notifications
func TestBrokenAnswer(t *testing.T) {
	s := newSite(t, func(_ int, w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Length", "100")
		fmt.Fprint(w, `{"errcode":0}`)
	})
	r := start(t, t.TempDir(), trusts(s))
	r.Configure([]Target{r.target("a", typeWeCom, s)})
	res, err := r.Test(t.Context(), "a")
	if err != nil || res.OK || !strings.Contains(res.Error, "broke off") {
		t.Errorf("%+v, %v", res, err)
	}
}

// TestTexts: every kind of event is told in both languages, without a verb of Printf left over.
//
// Covers: issue4 notifications
func TestTexts(t *testing.T) {
	fold := []Event{verdict(1, "default", "down"), verdict(2, "default", "up"), verdict(3, "default", "down")}
	override := Event{Kind: KindExpiry, Subject: "Override hold", Message: "ended"}
	cert := Event{Kind: KindExpiry, Code: "ALARM_CERT_EXPIRING", Subject: "ns1", On: true, Message: "ends"}
	mass := Event{Kind: KindMass, Code: "ALARM_MASS_SWITCH", On: true, Message: "many"}
	over := mass
	over.On = false
	unpublished := switched(1)
	unpublished.Publication = nil
	for _, lang := range []string{"en", "zh"} {
		for name, events := range map[string][]Event{
			"switch": {switched(1)}, "unpublished": {unpublished}, "verdict": fold[:1], "fold": fold, "override": {override}, "cert": {cert},
			"mass": {mass}, "over": {over}, "alarm": {alarmed(1, "x", true)}, "digest": {switched(1), mass}, "none": {},
		} {
			m := &message{id: "id1", kind: kindDigest, events: events, language: lang, lost: 2, from: From{"c1", "n1"}}
			if len(events) > 0 && events[0].Kind == KindVerdict {
				m.kind = KindVerdict
			}
			x := m.compose()
			all := x.title + "\n" + strings.Join(x.lines, "\n")
			if strings.Contains(all, "%!") || strings.Contains(all, "(MISSING)") || x.title == "" || len(x.lines) < 2 {
				t.Errorf("%s %s:\n%s", lang, name, all)
			}
			if name == "fold" && !strings.Contains(all, "3") {
				t.Errorf("%s: no count:\n%s", name, all)
			}
			t.Logf("%s %s:\n%s", lang, name, all)
		}
	}
}
