package pool

import (
	"context"
	"errors"
	"os"
)

// late gives a connect that its limit ended as context.DeadlineExceeded: sometimes the connection notices before the context
// does, and says it in its own words.
func late(err error) error {
	if errors.Is(err, os.ErrDeadlineExceeded) {
		return errors.Join(context.DeadlineExceeded, err)
	}
	return err
}
