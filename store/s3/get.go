package s3

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"strconv"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/s3"

	"github.com/deltad/deltad/store"
)

// A body may break maxResumes times, and again as often each time resumeProgress more bytes were delivered.
const (
	maxResumes     = 4
	resumeProgress = 32 << 20
)

// Get implements store.Store.
func (s *Store) Get(ctx context.Context, key string, o store.GetOptions) (store.Object, error) {
	if err := store.CheckKey(key); err != nil {
		return store.Object{}, s.fail(ctx, "get", key, err)
	}
	if _, _, err := o.Range(math.MaxInt64); err != nil {
		return store.Object{}, s.fail(ctx, "get", key, err)
	}
	obj, err := s.open(ctx, key, o)
	if err != nil {
		return store.Object{}, s.fail(ctx, "get", key, err)
	}
	obj.Body = &body{s: s, ctx: ctx, info: obj.Info, rc: obj.Body, at: obj.Offset, end: obj.Offset + obj.Length, resumes: maxResumes}
	return obj, nil
}

// open sends one request and checks that the answer is what was asked for.
func (s *Store) open(ctx context.Context, key string, o store.GetOptions) (store.Object, error) {
	out, err := s.client.GetObject(ctx, &s3.GetObjectInput{
		Bucket: &s.o.Bucket, Key: &key, ExpectedBucketOwner: s.owner, RequestPayer: s.payer,
		Range: rangeHeader(o), IfMatch: quote(o.IfMatch), IfNoneMatch: quote(o.IfNoneMatch),
	})
	if err != nil {
		return store.Object{}, err
	}
	obj, err := opened(key, o, out)
	if err != nil {
		return store.Object{}, closing(out.Body, err)
	}
	return obj, nil
}

func opened(key string, o store.GetOptions, out *s3.GetObjectOutput) (store.Object, error) {
	info := store.ObjectInfo{Key: key, ETag: unquote(aws.ToString(out.ETag)), LastModified: utc(out.LastModified)}
	if info.ETag == "" || out.ContentLength == nil {
		return store.Object{}, fmt.Errorf("%w: an answer without ETag or Content-Length is none of an object store", store.ErrUnavailable)
	}
	got, offset := *out.ContentLength, int64(0)
	info.Size = got
	if r := aws.ToString(out.ContentRange); r != "" {
		var err error
		if offset, info.Size, err = contentRange(r); err != nil {
			return store.Object{}, err
		}
	}
	wantOffset, wantLength, err := o.Range(info.Size)
	if err != nil {
		return store.Object{}, err
	}
	if offset != wantOffset || got != wantLength {
		return store.Object{}, fmt.Errorf("%w: asked for %d bytes at %d, got %d at %d: the server does not honour Range",
			store.ErrUnsupported, wantLength, wantOffset, got, offset)
	}
	if o.IfMatch != "" && o.IfMatch != info.ETag {
		return store.Object{}, fmt.Errorf("%w: the server ignored If-Match and sent version %s", store.ErrPrecondition, info.ETag)
	}
	return store.Object{Info: info, Offset: offset, Length: got, Body: out.Body}, nil
}

func rangeHeader(o store.GetOptions) *string {
	switch {
	case !o.Ranged():
		return nil
	case o.Offset < 0:
		return aws.String("bytes=" + strconv.FormatInt(o.Offset, 10))
	case o.Length == 0 || o.Offset > math.MaxInt64-o.Length:
		return aws.String(fmt.Sprintf("bytes=%d-", o.Offset))
	}
	return aws.String(fmt.Sprintf("bytes=%d-%d", o.Offset, o.Offset+o.Length-1))
}

// contentRange reads "bytes first-last/size".
func contentRange(v string) (first, size int64, err error) {
	bad := fmt.Errorf("%w: Content-Range %q", store.ErrUnavailable, v)
	spec, ok := strings.CutPrefix(v, "bytes ")
	span, total, ok2 := strings.Cut(spec, "/")
	from, to, ok3 := strings.Cut(span, "-")
	if !ok || !ok2 || !ok3 {
		return 0, 0, bad
	}
	first, err1 := strconv.ParseInt(from, 10, 64)
	last, err2 := strconv.ParseInt(to, 10, 64)
	size, err3 := strconv.ParseInt(total, 10, 64)
	if errors.Join(err1, err2, err3) != nil || first < 0 || last < first || size <= last {
		return 0, 0, bad
	}
	return first, size, nil
}

// body delivers one version of an object, over several connections if need be.
type body struct {
	s        *Store
	ctx      context.Context
	info     store.ObjectInfo
	rc       io.ReadCloser // nil between a break and its resumption
	at, end  int64
	resumes  int
	progress int64 // bytes since resumes was full
	err      error // the last word
}

func (b *body) Read(p []byte) (int, error) {
	for b.err == nil && len(p) > 0 {
		if b.rc == nil {
			if b.err = b.resume(); b.err != nil {
				break
			}
		}
		n, err := b.rc.Read(p)
		b.at += int64(n)
		if b.progress += int64(n); b.progress >= resumeProgress {
			b.progress, b.resumes = 0, maxResumes
		}
		if err != nil || b.at > b.end {
			b.broke(err)
		}
		if n > 0 {
			return n, nil
		}
	}
	return 0, b.err
}

// broke decides what the end of a connection means.
func (b *body) broke(err error) {
	switch {
	case b.at > b.end:
		b.err = b.fail(fmt.Errorf("%w: more bytes than announced", store.ErrUnavailable))
	case b.at == b.end && (err == nil || errors.Is(err, io.EOF)):
		b.err = err
	case b.ctx.Err() != nil:
		b.err = b.fail(err)
	case b.at == b.end: // everything came, and yet there is an error: the checksum
		b.err = b.fail(fmt.Errorf("%w: %w (damaged on the way, or a server whose checksums are wrong: then set `checksum: when_required`)",
			store.ErrUnavailable, err))
	default:
		if errors.Is(err, io.EOF) {
			err = io.ErrUnexpectedEOF
		}
		_ = b.rc.Close()
		b.rc = nil
		if b.resumes--; b.resumes < 0 {
			b.err = b.fail(fmt.Errorf("%w: body ended at byte %d of %d for the %dth time: %w", store.ErrUnavailable, b.at, b.end, maxResumes+1, err))
		}
	}
}

// resume opens the rest of the same version.
func (b *body) resume() error {
	pause := time.Duration(50+rand.IntN(100)) * time.Millisecond << (maxResumes - b.resumes - 1)
	select {
	case <-time.After(pause):
	case <-b.ctx.Done():
		return b.fail(b.ctx.Err())
	}
	obj, err := b.s.open(b.ctx, b.info.Key, store.GetOptions{IfMatch: b.info.ETag, Offset: b.at, Length: b.end - b.at})
	if _, class := b.s.classify("get", err); err != nil && errors.Is(class, store.ErrPrecondition) {
		return b.fail(fmt.Errorf("%w: replaced while it was read", store.ErrUnavailable))
	}
	if err != nil {
		return b.fail(err)
	}
	b.rc = obj.Body
	return nil
}

func (b *body) fail(err error) error { return b.s.fail(b.ctx, "read", b.info.Key, err) }

func (b *body) Close() error {
	if b.err == nil || errors.Is(b.err, io.EOF) {
		b.err = errors.New("read after close")
	}
	if b.rc == nil {
		return nil
	}
	rc := b.rc
	b.rc = nil
	return rc.Close()
}

// Head implements store.Store.
func (s *Store) Head(ctx context.Context, key string) (store.ObjectInfo, error) {
	if err := store.CheckKey(key); err != nil {
		return store.ObjectInfo{}, s.fail(ctx, "head", key, err)
	}
	info, _, err := s.head(ctx, key)
	if err != nil {
		return store.ObjectInfo{}, s.fail(ctx, "head", key, err)
	}
	return info, nil
}

// head also gives the token of the put that wrote the object, if it had one.
func (s *Store) head(ctx context.Context, key string) (info store.ObjectInfo, token string, err error) {
	out, err := s.client.HeadObject(ctx, &s3.HeadObjectInput{
		Bucket: &s.o.Bucket, Key: &key, ExpectedBucketOwner: s.owner, RequestPayer: s.payer,
	})
	if err != nil {
		return info, "", err
	}
	info = store.ObjectInfo{Key: key, ETag: unquote(aws.ToString(out.ETag)), Size: aws.ToInt64(out.ContentLength), LastModified: utc(out.LastModified)}
	if info.ETag == "" || out.ContentLength == nil {
		return info, "", fmt.Errorf("%w: an answer without ETag or Content-Length is none of an object store", store.ErrUnavailable)
	}
	return info, out.Metadata[tokenName], nil
}

// Delete implements store.Store.
func (s *Store) Delete(ctx context.Context, key string) error {
	if err := store.CheckKey(key); err != nil {
		return s.fail(ctx, "delete", key, err)
	}
	_, err := s.client.DeleteObject(ctx, &s3.DeleteObjectInput{
		Bucket: &s.o.Bucket, Key: &key, ExpectedBucketOwner: s.owner, RequestPayer: s.payer,
	})
	if err == nil {
		return nil
	}
	if err = s.fail(ctx, "delete", key, err); errors.Is(err, store.ErrNotFound) {
		return nil
	}
	return err
}
