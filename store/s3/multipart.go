package s3

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/s3/types"
	"golang.org/x/sync/errgroup"

	"github.com/deltad/deltad/store"
)

const (
	maxParts      = 10_000
	maxObjectSize = 5 << 40
	// partsAtOnce is how many parts of one body are under way together; bodies that can only be read in order go one by one.
	partsAtOnce = 4
	// abortTimeout bounds the clean-up after the caller's context has ended.
	abortTimeout = 20 * time.Second
)

// multipart uploads a large body in parts. The condition is looked at before the first byte, to spare a hopeless upload and because some
// servers ignore it at the end, and holds when the upload is completed, where servers honour it.
func (p *put) multipart(ctx context.Context, body io.ReadSeeker) (etag string, err error) {
	if p.size > maxObjectSize {
		return "", fmt.Errorf("%w: %d bytes, an object holds at most %d", store.ErrTooLarge, p.size, int64(maxObjectSize))
	}
	if err := p.precheck(ctx); err != nil {
		return "", err
	}
	id, err := p.create(ctx)
	if err != nil {
		return "", err
	}
	defer func() {
		if err != nil {
			p.abort(ctx, id)
		}
	}()
	parts, err := p.parts(ctx, id, body)
	if err != nil {
		return "", err
	}
	in := &s3.CompleteMultipartUploadInput{
		Bucket: &p.s.o.Bucket, Key: &p.key, UploadId: &id, ExpectedBucketOwner: p.s.owner, RequestPayer: p.s.payer,
		MultipartUpload: &types.CompletedMultipartUpload{Parts: parts},
	}
	in.IfMatch, in.IfNoneMatch = p.conditions()
	out, err := p.s.client.CompleteMultipartUpload(ctx, in, p.attempts)
	if err != nil {
		return "", err
	}
	return unquote(aws.ToString(out.ETag)), nil
}

func (p *put) precheck(ctx context.Context) error {
	if !p.o.Conditional() {
		return nil
	}
	info, _, err := p.s.head(ctx, p.key)
	if _, class := p.s.classify("head", err); err != nil && errors.Is(class, store.ErrNotFound) {
		if p.o.IfMatch != "" {
			return fmt.Errorf("%w: there is no object", store.ErrPrecondition)
		}
		return nil
	}
	switch {
	case err != nil:
		return fmt.Errorf("look for the object first: %w", err)
	case p.o.IfNoneMatch:
		return fmt.Errorf("%w: the object exists", store.ErrPrecondition)
	case info.ETag != p.o.IfMatch:
		return fmt.Errorf("%w: the object is version %s", store.ErrPrecondition, info.ETag)
	}
	return nil
}

func (p *put) create(ctx context.Context) (id string, err error) {
	in := &s3.CreateMultipartUploadInput{
		Bucket: &p.s.o.Bucket, Key: &p.key, ExpectedBucketOwner: p.s.owner, RequestPayer: p.s.payer,
		ContentType: optional(p.o.ContentType), Metadata: p.metadata(), ACL: types.ObjectCannedACL(p.s.o.ACL), Tagging: p.s.tagging(),
	}
	if p.s.o.Checksum != WhenRequired {
		in.ChecksumAlgorithm = types.ChecksumAlgorithmCrc32 // what the SDK sends with parts must be declared here
	}
	if p.s.o.SSEKMSKeyID != "" {
		in.ServerSideEncryption, in.SSEKMSKeyId = types.ServerSideEncryptionAwsKms, &p.s.o.SSEKMSKeyID
	}
	out, err := p.s.client.CreateMultipartUpload(ctx, in)
	if err != nil {
		return "", err
	}
	if aws.ToString(out.UploadId) == "" {
		return "", fmt.Errorf("%w: an upload without an id", store.ErrUnavailable)
	}
	return *out.UploadId, nil
}

// partLength is the configured size, or more where a body would need more parts than there can be.
func partLength(size, configured int64) int64 {
	const mib = 1 << 20
	least := (size + maxParts - 1) / maxParts
	return max(configured, (least+mib-1)/mib*mib)
}

func (p *put) parts(ctx context.Context, id string, body io.ReadSeeker) ([]types.CompletedPart, error) {
	length := partLength(p.size, p.s.partSize)
	parts := make([]types.CompletedPart, (p.size+length-1)/length)
	_, direct := body.(io.ReaderAt)
	g, gctx := errgroup.WithContext(ctx)
	g.SetLimit(partsAtOnce)
	if !direct {
		g.SetLimit(1) // one buffer, used again when its part is up
	}
	buf := []byte(nil)
	for i := range parts {
		offset := int64(i) * length
		n := min(length, p.size-offset)
		if gctx.Err() != nil {
			break
		}
		if direct {
			g.Go(func() (err error) {
				parts[i], err = p.part(gctx, id, int32(i+1), section(body, offset, n), n)
				return err
			})
			continue
		}
		if buf == nil {
			buf = make([]byte, length)
		}
		if _, err := io.ReadFull(body, buf[:n]); err != nil {
			return nil, fmt.Errorf("read body at byte %d: %w", offset, err)
		}
		var err error
		if parts[i], err = p.part(ctx, id, int32(i+1), bytes.NewReader(buf[:n]), n); err != nil {
			return nil, err
		}
	}
	if err := g.Wait(); err != nil {
		return nil, err
	}
	return parts, ctx.Err()
}

func (p *put) part(ctx context.Context, id string, number int32, body io.ReadSeeker, n int64) (types.CompletedPart, error) {
	out, err := p.s.client.UploadPart(ctx, &s3.UploadPartInput{
		Bucket: &p.s.o.Bucket, Key: &p.key, UploadId: &id, PartNumber: &number, ExpectedBucketOwner: p.s.owner, RequestPayer: p.s.payer,
		Body: body, ContentLength: &n,
	})
	if err != nil {
		return types.CompletedPart{}, fmt.Errorf("part %d: %w", number, err)
	}
	return types.CompletedPart{
		PartNumber: &number, ETag: out.ETag,
		ChecksumCRC32: out.ChecksumCRC32, ChecksumCRC32C: out.ChecksumCRC32C, ChecksumCRC64NVME: out.ChecksumCRC64NVME,
		ChecksumSHA1: out.ChecksumSHA1, ChecksumSHA256: out.ChecksumSHA256,
	}, nil
}

// abort gives the parts back, on a context of its own since the caller's may have ended. A part that the server still receives while it
// aborts may survive, so it is asked again until it knows of no upload, a few times. An upload that completed after all, its answer lost,
// is not touched by it. What cannot be aborted now is left to the bucket's lifecycle rule.
func (p *put) abort(ctx context.Context, id string) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), abortTimeout)
	defer cancel()
	for pause := 50 * time.Millisecond; pause < time.Second; pause *= 4 {
		_, err := p.s.client.AbortMultipartUpload(ctx, &s3.AbortMultipartUploadInput{
			Bucket: &p.s.o.Bucket, Key: &p.key, UploadId: &id, ExpectedBucketOwner: p.s.owner, RequestPayer: p.s.payer,
		})
		if code, _, status, _ := answer(err); code == "NoSuchUpload" || status == http.StatusNotFound {
			return
		}
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return
		}
	}
}
