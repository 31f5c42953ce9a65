package store

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"time"
)

// ErrUnconditional is what Probe returns for a store that lacks or silently ignores a condition that deltad's safety rests on.
var ErrUnconditional = errors.New("the store does not honour conditional requests")

// instead is what to do about ErrUnconditional.
const instead = "use a store that does (Amazon S3, versitygw, SeaweedFS, a recent Ceph or MinIO, or file:// on a local disk), " +
	"and no proxy or gateway that strips If-Match and If-None-Match"

// Probe finds out by trial, under prefix, whether the store honours conditions: create; create again, refused; replace with the right
// ETag; with a stale one, refused; get of an unchanged version, answered with not modified; the body unchanged after each refusal. It
// removes what it wrote, also when ctx ends. A store that fails is ErrUnconditional with the condition and with what to use instead;
// an outage or a refusal of access is returned as it is, since it proves nothing.
func Probe(ctx context.Context, s Store, prefix string) error {
	for try := 1; ; try++ {
		err := probeOnce(ctx, s, prefix)
		// Servers that keep objects in directories may refuse a key while another replica's probe removes the last object beside it.
		if !errors.Is(err, ErrBadKey) && !errors.Is(err, ErrConflict) || try == 3 {
			return err
		}
	}
}

func probeOnce(ctx context.Context, s Store, prefix string) error {
	// A name of its own, so that probes of several replicas at one time do not meet; one that listers ignore, should it be left behind.
	p := &probe{s: s, key: prefix + "_probe-" + rand.Text()}
	err := p.run(ctx)
	clean, cancel := context.WithTimeout(context.WithoutCancel(ctx), 20*time.Second)
	defer cancel()
	if p.wrote {
		if e := s.Delete(clean, p.key); e != nil && err == nil {
			err = fmt.Errorf("remove probe object: %w", e)
		}
	}
	if err != nil {
		return fmt.Errorf("probe conditional requests: %w", err)
	}
	return nil
}

type probe struct {
	s     Store
	key   string
	wrote bool
}

// put writes a body and retries a conflict, which only says that the server was busy with the key.
func (p *probe) put(ctx context.Context, body string, o PutOptions) (string, error) {
	p.wrote = true
	o.Unretried = true
	for try := 0; ; try++ {
		etag, err := PutBytes(ctx, p.s, p.key, []byte(body), o)
		if !errors.Is(err, ErrConflict) || try == 5 {
			return etag, err
		}
	}
}

func (p *probe) lacks(condition, what string) error {
	return Fail("probe", p.s.String(), p.key, ErrUnconditional, fmt.Errorf("%s: %s; %s", condition, what, instead))
}

// refused turns the outcome of a put that had to be refused into an error, and looks at the body.
func (p *probe) refused(ctx context.Context, condition string, err error, body string) error {
	switch {
	case err == nil:
		return p.lacks(condition, "silently ignored, the object was overwritten")
	case errors.Is(err, ErrUnsupported):
		return p.lacks(condition, err.Error())
	case !errors.Is(err, ErrPrecondition):
		return err
	}
	got, _, err := ReadAll(ctx, p.s, p.key, 1<<10, GetOptions{})
	switch {
	case errors.Is(err, ErrNotFound):
		return p.lacks(condition, "the object is gone after the refusal")
	case err != nil:
		return err
	case !bytes.Equal(got, []byte(body)):
		return p.lacks(condition, "answered with a refusal, but the body changed")
	}
	return nil
}

func (p *probe) run(ctx context.Context) error {
	const one, two, three = "deltad probe 1", "deltad probe 2", "deltad probe 3"
	first, err := p.put(ctx, one, PutOptions{IfNoneMatch: true})
	switch {
	case errors.Is(err, ErrPrecondition):
		return p.lacks("PUT with If-None-Match: *", "refused although the key is new")
	case errors.Is(err, ErrUnsupported):
		return p.lacks("PUT with If-None-Match: *", err.Error())
	case err != nil:
		return err
	}
	_, err = p.put(ctx, two, PutOptions{IfNoneMatch: true})
	if err := p.refused(ctx, "PUT with If-None-Match: *", err, one); err != nil {
		return err
	}
	second, err := p.put(ctx, two, PutOptions{IfMatch: first})
	switch {
	case errors.Is(err, ErrPrecondition):
		return p.lacks("PUT with If-Match", "refused although the ETag is that of the object")
	case errors.Is(err, ErrUnsupported):
		return p.lacks("PUT with If-Match", err.Error())
	case err != nil:
		return err
	case second == first:
		return p.lacks("PUT with If-Match", "the ETag stayed the same although the body changed")
	}
	_, err = p.put(ctx, three, PutOptions{IfMatch: first})
	if err := p.refused(ctx, "PUT with If-Match of a stale ETag", err, two); err != nil {
		return err
	}
	return p.notModified(ctx, second)
}

func (p *probe) notModified(ctx context.Context, etag string) error {
	obj, err := p.s.Get(ctx, p.key, GetOptions{IfNoneMatch: etag})
	switch {
	case errors.Is(err, ErrNotModified):
		return nil
	case err != nil:
		return err
	}
	if err := obj.Body.Close(); err != nil {
		return err
	}
	return p.lacks("GET with If-None-Match", "silently ignored, the whole object was sent")
}
