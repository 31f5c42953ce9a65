package source

import (
	"context"
	"errors"
	"fmt"

	"golang.org/x/sync/errgroup"

	"github.com/deltad/deltad/store"
)

// headsAtOnce bounds how many requests ConfirmGone has open.
const headsAtOnce = 8

// ConfirmGone asks for each key that a listing lacks whether it is gone, and returns those that are, in the order given. Only a definite
// "not found" counts; any other failure is an error, and then nothing is known.
func (s *Source) ConfirmGone(ctx context.Context, keys []string) ([]string, error) {
	gone := make([]bool, len(keys))
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(headsAtOnce)
	for i, key := range keys {
		g.Go(func() error {
			_, err := s.store.Head(ctx, key)
			if errors.Is(err, store.ErrNotFound) {
				gone[i] = true
				return nil
			}
			if err != nil {
				return fmt.Errorf("confirm that %q is gone: %w", key, err)
			}
			return nil
		})
	}
	if err := g.Wait(); err != nil {
		return nil, err
	}
	var out []string
	for i, key := range keys {
		if gone[i] {
			out = append(out, key)
		}
	}
	return out, nil
}
