package s3

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"net/url"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/s3/types"

	"github.com/deltad/deltad/store"
)

// tokenName is the metadata entry by which a put recognises its own earlier attempt: refused by its own object if it has a condition,
// or told that its upload is gone if it went up in parts.
const tokenName = "deltad-put"

// Put implements store.Store.
func (s *Store) Put(ctx context.Context, key string, body io.ReadSeeker, o store.PutOptions) (string, error) {
	if err := store.CheckPut(key, o); err != nil {
		return "", s.fail(ctx, "put", key, err)
	}
	size, err := body.Seek(0, io.SeekEnd)
	if err == nil {
		_, err = body.Seek(0, io.SeekStart)
	}
	if err != nil {
		return "", store.Fail("put", s.String(), key, nil, fmt.Errorf("measure body: %w", err))
	}
	p := &put{s: s, key: key, o: o, size: size}
	if (o.Conditional() || p.large()) && !o.Unretried {
		p.token = rand.Text()
	}
	etag, err := p.run(ctx, body)
	if err != nil {
		return "", s.fail(ctx, "put", key, err)
	}
	return etag, nil
}

// put is one object on its way up.
type put struct {
	s     *Store
	key   string
	o     store.PutOptions
	size  int64
	token string
}

// large bodies go up in parts.
func (p *put) large() bool { return p.size > 2*p.s.partSize }

func (p *put) run(ctx context.Context, body io.ReadSeeker) (etag string, err error) {
	if p.large() {
		etag, err = p.multipart(ctx, body)
	} else {
		etag, err = p.single(ctx, body)
	}
	if err != nil {
		return p.mine(ctx, err)
	}
	if etag != "" {
		return etag, nil
	}
	return p.unnamed(ctx)
}

// unnamed looks what came of a put whose answer has a good status and names no version. Some servers complete an upload so; then what is
// there carries the token. Anything else that answers so is no object store but something in between, a portal's page for instance, and
// what became of the put is unknown.
func (p *put) unnamed(ctx context.Context) (string, error) {
	if p.token != "" && p.large() {
		info, token, err := p.s.head(ctx, p.key)
		if _, class := p.s.classify("head", err); err != nil && !errors.Is(class, store.ErrNotFound) {
			return "", err
		}
		if err == nil && token == p.token {
			return info.ETag, nil
		}
	}
	return "", fmt.Errorf("%w: an answer without ETag is none of an object store", store.ErrUnavailable)
}

// mine looks whether a refusal is about the put's own earlier attempt, whose answer was lost.
func (p *put) mine(ctx context.Context, refusal error) (string, error) {
	if p.token == "" || ctx.Err() != nil {
		return "", p.absent(refusal)
	}
	code, _, _, _ := answer(refusal)
	if _, class := p.s.classify("put", refusal); !errors.Is(class, store.ErrPrecondition) && code != "NoSuchUpload" {
		return "", p.absent(refusal)
	}
	info, token, err := p.s.head(ctx, p.key)
	if err == nil && token == p.token {
		return info.ETag, nil
	}
	return "", p.absent(refusal)
}

// absent makes "no such key", which is how some servers refuse to replace what is not there, the refusal that it is.
func (p *put) absent(err error) error {
	if p.o.IfMatch == "" {
		return err
	}
	if _, class := p.s.classify("put", err); errors.Is(class, store.ErrNotFound) {
		return fmt.Errorf("%w: %w", store.ErrPrecondition, err)
	}
	return err
}

func (p *put) conditions() (ifMatch, ifNoneMatch *string) {
	if p.o.IfNoneMatch {
		return nil, aws.String("*")
	}
	return quote(p.o.IfMatch), nil
}

func (p *put) metadata() map[string]string {
	if p.token == "" {
		return nil
	}
	return map[string]string{tokenName: p.token}
}

// attempts takes the SDK's retries away from an unretried put.
func (p *put) attempts(c *s3.Options) {
	if p.o.Unretried {
		c.Retryer = aws.NopRetryer{}
	}
}

func (p *put) single(ctx context.Context, body io.ReadSeeker) (string, error) {
	in := &s3.PutObjectInput{
		Bucket: &p.s.o.Bucket, Key: &p.key, ExpectedBucketOwner: p.s.owner, RequestPayer: p.s.payer,
		Body: section(body, 0, p.size), ContentLength: &p.size, ContentType: optional(p.o.ContentType), Metadata: p.metadata(),
		ACL: types.ObjectCannedACL(p.s.o.ACL), Tagging: p.s.tagging(),
	}
	in.IfMatch, in.IfNoneMatch = p.conditions()
	if p.s.o.SSEKMSKeyID != "" {
		in.ServerSideEncryption, in.SSEKMSKeyId = types.ServerSideEncryptionAwsKms, &p.s.o.SSEKMSKeyID
	}
	out, err := p.s.client.PutObject(ctx, in, p.attempts)
	if err != nil {
		return "", err
	}
	return unquote(aws.ToString(out.ETag)), nil
}

// section hides Close, which the transport would call on a caller's file, and where it can the position, which it may move after the
// call has returned.
func section(body io.ReadSeeker, offset, n int64) io.ReadSeeker {
	if r, ok := body.(io.ReaderAt); ok {
		return io.NewSectionReader(r, offset, n)
	}
	return struct{ io.ReadSeeker }{body}
}

func (s *Store) tagging() *string {
	if len(s.o.Tags) == 0 {
		return nil
	}
	v := url.Values{}
	for k, t := range s.o.Tags {
		v.Set(k, t)
	}
	return aws.String(v.Encode())
}
