package engine

// queue is a heap of rules by due time; a rule whose due time is 0 is not in it.
type queue []*rule

func (q queue) first() *rule {
	if len(q) == 0 {
		return nil
	}
	return q[0]
}

// fix puts a rule where its due time wants it.
func (q *queue) fix(r *rule) {
	switch {
	case r.due == 0:
		q.remove(r)
	case r.slot < 0:
		r.slot = len(*q)
		*q = append(*q, r)
		q.up(r.slot)
	default:
		q.up(r.slot)
		q.down(r.slot)
	}
}

func (q *queue) remove(r *rule) {
	if r.slot < 0 {
		return
	}
	i, last := r.slot, len(*q)-1
	q.swap(i, last)
	(*q)[last] = nil
	*q = (*q)[:last]
	if i < last {
		q.up(i)
		q.down(i)
	}
	r.slot = -1
}

func (q queue) swap(i, j int) {
	q[i], q[j] = q[j], q[i]
	q[i].slot, q[j].slot = i, j
}

func (q queue) up(i int) {
	for i > 0 {
		parent := (i - 1) / 2
		if q[parent].due <= q[i].due {
			return
		}
		q.swap(i, parent)
		i = parent
	}
}

func (q queue) down(i int) {
	for {
		child := 2*i + 1
		if child >= len(q) {
			return
		}
		if child+1 < len(q) && q[child+1].due < q[child].due {
			child++
		}
		if q[i].due <= q[child].due {
			return
		}
		q.swap(i, child)
		i = child
	}
}
