package notify

import "time"

// pacer keeps to the rate a chat service allows.
type pacer struct {
	n    int           // messages
	per  time.Duration // in any span of this length
	last []time.Time   // of the newest n messages, oldest first
}

// pacerOf gives the rate of a type. Beyond it DingTalk shuts a robot out for ten minutes; tries count, too.
func pacerOf(typ string) pacer {
	switch typ {
	case typeDingTalk, typeWeCom:
		return pacer{n: 20, per: time.Minute} // both state 20 messages a minute for one robot
	case typeFeishu:
		return pacer{n: 5, per: 3 * time.Second} // stated: 5 a second and 100 a minute
	case typeSlack:
		return pacer{n: 1, per: time.Second} // stated: one message a second
	}
	return pacer{}
}

// wait is how long no message may be sent.
func (p *pacer) wait(now time.Time) time.Duration {
	if p.n == 0 || len(p.last) < p.n {
		return 0
	}
	return max(p.last[0].Add(p.per).Sub(now), 0)
}

func (p *pacer) sent(now time.Time) {
	if p.n == 0 {
		return
	}
	p.last = append(p.last, now)
	if len(p.last) > p.n {
		p.last = p.last[1:]
	}
}
