package sink

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/deltad/deltad/store"
)

// cachedPrefix is where slices lie that any process of the pipeline may use
// instead of reading their objects: cachedPrefix<recipe>/<start>-<address>-<id>.run.
//
// No manifest names them and no reader reads them. Any of them may be deleted
// at any time, by deltad or by a person: what is missing is read from its
// objects. A name is never used twice: its last part is an id of its own.
const cachedPrefix = "state/cache/"

const cachedTime = "20060102T150405Z"

// CachedAge is how long a cached slice outlives the last pane that it was made
// for, by the store's clock; one of another recipe stays for OrphanAge.
const CachedAge = time.Hour

// maxCachedDeleted bounds how many cached slices one collection deletes.
const maxCachedDeleted = 1000

// Cached is a slice under state/cache/.
type Cached struct {
	Key string
	// Recipe and Address are 64 hexadecimal digits each: what the slice is made
	// by, and that with what it is made of. Start is the partition's.
	Recipe, Address string
	Start           time.Time
	// ID is a ULID: of two of one address the later one was made later.
	ID string
}

// CachedKey is the key of a cached slice.
func CachedKey(recipe, address string, start time.Time, id string) string {
	return cachedPrefix + recipe + "/" + start.UTC().Format(cachedTime) + "-" + address + "-" + id + ".run"
}

// parseCached takes a key of CachedKey apart.
func parseCached(key string) (c Cached, ok bool) {
	rest, found := strings.CutPrefix(key, cachedPrefix)
	recipe, name, slash := strings.Cut(rest, "/")
	name, run := strings.CutSuffix(name, ".run")
	parts := strings.Split(name, "-")
	if !found || !slash || !run || len(parts) != 3 || !ValidID(parts[2]) {
		return c, false
	}
	start, err := time.Parse(cachedTime, parts[0])
	c = Cached{Key: key, Recipe: recipe, Address: parts[1], Start: start, ID: parts[2]}
	return c, err == nil && hex64(recipe) && hex64(c.Address) && CachedKey(recipe, c.Address, start, c.ID) == key
}

func hex64(s string) bool {
	return len(s) == 64 && strings.Trim(s, "0123456789abcdef") == ""
}

// CachedSlices lists the cached slices of a recipe whose partitions start at
// from or later: a request for each thousand.
func (s *Sink) CachedSlices(ctx context.Context, recipe string, from time.Time) ([]Cached, error) {
	prefix := cachedPrefix + recipe + "/"
	var out []Cached
	for p, err := range store.Pages(ctx, s.st, store.ListOptions{Prefix: prefix, StartAfter: prefix + from.UTC().Format(cachedTime)}) {
		if err != nil {
			return nil, fmt.Errorf("list cached slices: %w", err)
		}
		for _, o := range p.Objects {
			if c, ok := parseCached(o.Key); ok {
				out = append(out, c)
			}
		}
	}
	return out, nil
}

// OpenCached opens a cached slice for reading from its start and returns its
// size. What is read must be verified by the reader. A missing one is
// store.ErrNotFound.
func (s *Sink) OpenCached(ctx context.Context, key string) (io.ReadCloser, int64, error) {
	obj, err := s.st.Get(ctx, key, store.GetOptions{})
	if err != nil {
		return nil, 0, fmt.Errorf("open %s: %w", key, err)
	}
	return obj.Body, obj.Info.Size, nil
}

// PutCached writes a cached slice under a key that was never used before. A power
// cut may damage it: who opens it verifies it, and can do without.
func (s *Sink) PutCached(ctx context.Context, key string, body io.ReadSeeker) error {
	if _, ok := parseCached(key); !ok {
		return fmt.Errorf("put cached slice: %q is no key of one", key)
	}
	_, err := s.st.Put(ctx, key, body, store.PutOptions{IfNoneMatch: true, Perishable: true})
	if err != nil && !errors.Is(err, store.ErrPrecondition) { // the name is new: what has it is this put's own first attempt
		return fmt.Errorf("put cached slice %s: %w", key, err)
	}
	return nil
}

// DropCached deletes a cached slice that is damaged.
func (s *Sink) DropCached(ctx context.Context, key string) error {
	if _, ok := parseCached(key); !ok {
		return fmt.Errorf("delete cached slice: %q is no key of one", key)
	}
	if err := s.st.Delete(ctx, key); err != nil {
		return fmt.Errorf("delete cached slice: %w", err)
	}
	return nil
}

// CachedRule says which cached slices the pipeline's next runs can use: those
// of Recipe whose addresses are in Live. Where Live is nil it is not known,
// and only partitions at or before From are past use. An empty Recipe is none
// that is known.
type CachedRule struct {
	Recipe string
	Live   map[string]bool
	From   time.Time
}

// past says whether a cached slice is of no use any more; later says that a
// newer one of its address is there.
func (r CachedRule) past(c Cached, age time.Duration, later bool) bool {
	switch {
	case c.Recipe != r.Recipe:
		return age >= OrphanAge
	case later:
		return age >= CachedAge
	case r.Live == nil:
		return age >= OrphanAge && !c.Start.After(r.From)
	}
	return age >= CachedAge && !r.Live[c.Address]
}

// planCached finds the cached slices that are of no use any more.
func (p *planner) planCached() {
	newest := map[string]string{}
	for _, o := range p.ev.Cached {
		if c, ok := parseCached(o.Key); ok {
			newest[c.Recipe+c.Address] = max(newest[c.Recipe+c.Address], c.ID)
		}
	}
	for _, o := range p.ev.Cached {
		c, ok := parseCached(o.Key)
		if ok && len(p.out.Cached) < maxCachedDeleted && p.ev.CachedRule.past(c, p.ev.Now.Sub(o.Modified), c.ID < newest[c.Recipe+c.Address]) {
			p.out.Cached = append(p.out.Cached, o.Key)
		}
	}
}
