package notify

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"strconv"
	"strings"
	"time"
)

// message is what is told at once.
type message struct {
	id       string
	kind     string
	at       time.Time
	lost     uint64
	events   []Event
	from     From
	language string
}

// Limits of bodies and texts, in bytes.
const (
	maxWebhook = 64 << 10
	// maxFeishu is what Feishu takes as a whole body: 20 KB.
	maxFeishu = 20_000
	// maxWeCom is of the content: texts may have 2048 bytes, Markdown 4096; the smaller one is safe for both.
	maxWeCom = 2048
	// maxDingTalk is well below the 20,000 bytes DingTalk takes: a phone shows less.
	maxDingTalk = 8000
	// maxSlack is where Slack begins to cut a text.
	maxSlack = 4000
	// maxEvents are listed in one body of a webhook.
	maxEvents = 20
)

// webhookBody is what a webhook gets.
type webhookBody struct {
	Format int       `json:"format"` // 1
	ID     string    `json:"id"`     // as in Steer-Event-Id; the same over every try
	Kind   string    `json:"kind"`   // of the event; digest: several kinds; test
	Time   time.Time `json:"time"`   // when the message was made
	From   From      `json:"from"`
	Title  string    `json:"title"`
	Text   string    `json:"text"`
	Count  int       `json:"count"`          // events told
	Lost   uint64    `json:"lost,omitempty"` // events before them that were never delivered
	Events []Event   `json:"events"`         // the first 20 of them at most
}

// encode makes the body of a message, and adds to u what the target wants in the URL.
func (t *Target) encode(m *message, secret string, now time.Time, u *url.URL) ([]byte, error) {
	x := m.compose()
	switch t.Type {
	case typeSlack:
		return json.Marshal(map[string]any{"text": cut(slackText(x), maxSlack), "mrkdwn": true})
	case typeDingTalk:
		if secret != "" {
			signDingTalk(u, secret, now)
		}
		return json.Marshal(map[string]any{
			"msgtype": "markdown", "markdown": map[string]string{"title": cut(plain(x.title), 100), "text": cut(markdownText(x), maxDingTalk)},
		})
	case typeFeishu:
		return feishuBody(x, secret, now)
	case typeWeCom:
		return json.Marshal(map[string]any{"msgtype": "markdown", "markdown": map[string]string{"content": cut(markdownText(x), maxWeCom)}})
	}
	return m.webhook(x)
}

// webhook is the body for programs. What does not fit is left out from the end: Count says how many there were.
func (m *message) webhook(x text) ([]byte, error) {
	b := webhookBody{
		Format: 1, ID: m.id, Kind: m.kind, Time: m.at.UTC(), From: m.from, Title: x.title, Text: strings.Join(x.lines, "\n"),
		Count: len(m.events), Lost: m.lost, Events: append([]Event{}, m.events[:min(len(m.events), maxEvents)]...),
	}
	for {
		body, err := json.Marshal(b)
		if err != nil || len(body) <= maxWebhook || len(b.Events) == 0 {
			return body, err
		}
		b.Events = b.Events[:len(b.Events)-1]
	}
}

// signature is the value of Steer-Signature: the time in seconds, and the HMAC-SHA256 of time, dot and body.
func signature(secret string, now time.Time, body []byte) string {
	t := strconv.FormatInt(now.Unix(), 10)
	mac := hmac.New(sha256.New, []byte(secret))
	mac.Write([]byte(t + "."))
	mac.Write(body)
	return "t=" + t + ",v1=" + hex.EncodeToString(mac.Sum(nil))
}

// signDingTalk adds timestamp and sign: the HMAC-SHA256 of time in milliseconds, line end and key, by the key.
func signDingTalk(u *url.URL, secret string, now time.Time) {
	t := strconv.FormatInt(now.UnixMilli(), 10)
	mac := hmac.New(sha256.New, []byte(secret))
	mac.Write([]byte(t + "\n" + secret))
	q := u.Query()
	q.Set("timestamp", t)
	q.Set("sign", base64.StdEncoding.EncodeToString(mac.Sum(nil)))
	u.RawQuery = q.Encode()
}

// signFeishu gives timestamp and sign for the body: the HMAC-SHA256 of nothing, by time in seconds, line end and key.
func signFeishu(secret string, now time.Time) (timestamp, sign string) {
	timestamp = strconv.FormatInt(now.Unix(), 10)
	mac := hmac.New(sha256.New, []byte(timestamp+"\n"+secret))
	return timestamp, base64.StdEncoding.EncodeToString(mac.Sum(nil))
}

// feishuBody is a post of plain text: nothing in it is markup, so nothing from outside can become any. Lines that do
// not fit are left out from the end.
func feishuBody(x text, secret string, now time.Time) ([]byte, error) {
	type run struct {
		Tag  string `json:"tag"`
		Text string `json:"text"`
	}
	var lines [][]run
	for _, l := range x.lines {
		lines = append(lines, []run{{"text", l}})
	}
	for {
		body := map[string]any{
			"msg_type": "post",
			"content":  map[string]any{"post": map[string]any{"zh_cn": map[string]any{"title": x.title, "content": lines}}},
		}
		if secret != "" {
			body["timestamp"], body["sign"] = signFeishu(secret, now)
		}
		b, err := json.Marshal(body)
		if err != nil || len(b) <= maxFeishu || len(lines) < 2 {
			return b, err
		}
		lines = append(lines[:len(lines)-2:len(lines)-2], []run{{"text", "…"}})
	}
}

// slackText escapes what Slack reads as a mention or a link.
func slackText(x text) string {
	escape := strings.NewReplacer("&", "&amp;", "<", "&lt;", ">", "&gt;")
	return "*" + escape.Replace(x.title) + "*\n" + escape.Replace(strings.Join(x.lines, "\n"))
}

// plain takes the characters of mentions, tags and links out of a text that is shown as Markdown: neither DingTalk nor
// WeCom has an escape for them.
func plain(s string) string {
	return strings.NewReplacer("<", "‹", ">", "›", "](", "] (", "`", "'", "@", "＠").Replace(s)
}

func markdownText(x text) string {
	var b strings.Builder
	b.WriteString("### " + plain(x.title) + "\n")
	for _, l := range x.lines {
		b.WriteString("\n- " + plain(l))
	}
	return b.String()
}

// Codes by which chat services say that there were too many messages, and how long to wait then.
const (
	dingTalkTooMany = 130101 // more than 20 a minute: shut out for ten minutes
	weComTooMany    = 45009  // more than 20 a minute
	feishuTooMany   = 11232
)

// judge reads the answer of a chat service: a status of 200 alone is no success there. again is how long to wait at
// least before the next try, 0 if the answer does not say. Of a webhook the status counts, and nothing else.
func (t *Target) judge(body []byte, readErr error) (again time.Duration, err error) {
	if t.Type == typeWebhook {
		return 0, nil
	}
	if readErr != nil {
		return 0, fmt.Errorf("its answer broke off: %w", readErr)
	}
	if t.Type == typeSlack {
		if strings.TrimSpace(string(body)) != "ok" {
			return 0, errors.New("it did not answer ok")
		}
		return 0, nil
	}
	var a struct {
		ErrCode    *int `json:"errcode"`    // DingTalk, WeCom
		Code       *int `json:"code"`       // Feishu
		StatusCode *int `json:"StatusCode"` // Feishu, as it answered before code came
	}
	if err := json.Unmarshal(body, &a); err != nil {
		return 0, errors.New("its answer is not the JSON of " + t.Type)
	}
	code := a.ErrCode
	if t.Type == typeFeishu {
		if code = a.Code; code == nil {
			code = a.StatusCode
		}
	}
	switch {
	case code == nil:
		return 0, errors.New("its answer has no code of " + t.Type)
	case *code == 0:
		return 0, nil
	case t.Type == typeDingTalk && *code == dingTalkTooMany:
		again = 10 * time.Minute
	case t.Type == typeWeCom && *code == weComTooMany, t.Type == typeFeishu && *code == feishuTooMany:
		again = time.Minute
	}
	return again, fmt.Errorf("it answered code %d", *code)
}
