package sink

import (
	"context"
	"fmt"
	"io"
	"strings"

	"github.com/deltad/deltad/store"
)

// formatHead is more than a manifest's bytes up to the end of its format, which it begins with.
const formatHead = 64

// CheckFormat reads the head of a manifest and returns ErrFormat if it says a major format number that is unknown here: this build can
// neither read the pane nor follow it. It says nothing else of the manifest, and is far cheaper than to read it.
func (s *Sink) CheckFormat(ctx context.Context, ref Ref) error {
	obj, err := s.st.Get(ctx, ref.Manifest, store.GetOptions{Length: formatHead})
	if err != nil {
		return fmt.Errorf("read the format of %s: %w", ref.Manifest, err)
	}
	defer obj.Body.Close()
	head, err := io.ReadAll(io.LimitReader(obj.Body, formatHead))
	if err != nil {
		return fmt.Errorf("read the format of %s: %w", ref.Manifest, err)
	}
	rest, found := strings.CutPrefix(string(head), `{"format":"`)
	format, _, whole := strings.Cut(rest, `"`)
	if !found || !whole {
		return nil // whoever reads it says what it is
	}
	if is := major(format); is != manifestFormat && is != layeredFormat {
		return fmt.Errorf("read %s: format %q, want %q or %q: %w", ref.Manifest, format, manifestFormat, layeredFormat, ErrFormat)
	}
	return nil
}
