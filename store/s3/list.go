package s3

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/s3/types"

	"github.com/deltad/deltad/store"
)

// List implements store.Store with ListObjectsV2.
func (s *Store) List(ctx context.Context, o store.ListOptions) (store.Page, error) {
	in := &s3.ListObjectsV2Input{
		Bucket: &s.o.Bucket, ExpectedBucketOwner: s.owner, RequestPayer: s.payer,
		EncodingType: types.EncodingTypeUrl, // XML cannot hold every key
		MaxKeys:      aws.Int32(int32(o.Limit())),
		Prefix:       optional(o.Prefix), Delimiter: optional(o.Delimiter),
	}
	if o.Token != "" {
		in.ContinuationToken = &o.Token
	} else {
		in.StartAfter = optional(o.StartAfter)
	}
	out, err := s.client.ListObjectsV2(ctx, in)
	if err != nil {
		return store.Page{}, s.fail(ctx, "list", o.Prefix, err)
	}
	p, err := page(o, out)
	if err != nil {
		return store.Page{}, store.Fail("list", s.String(), o.Prefix, store.ErrBadListing, err)
	}
	return p, nil
}

func optional(v string) *string {
	if v == "" {
		return nil
	}
	return &v
}

// page turns an answer into a page, or says why it cannot be trusted.
func page(o store.ListOptions, out *s3.ListObjectsV2Output) (store.Page, error) {
	var p store.Page
	decode := func(v string) (string, error) { return v, nil }
	if out.EncodingType == types.EncodingTypeUrl {
		decode = url.QueryUnescape
	}
	for _, obj := range out.Contents {
		key, err := decode(aws.ToString(obj.Key))
		if err != nil {
			return p, fmt.Errorf("key %q: %w", aws.ToString(obj.Key), err)
		}
		info := store.ObjectInfo{Key: key, ETag: unquote(aws.ToString(obj.ETag)), Size: aws.ToInt64(obj.Size), LastModified: utc(obj.LastModified)}
		if info.ETag == "" || info.Size < 0 {
			return p, fmt.Errorf("key %q has ETag %q and size %d", key, info.ETag, info.Size)
		}
		if n := len(p.Objects); n > 0 && p.Objects[n-1].Key >= key {
			return p, fmt.Errorf("key %q follows %q", key, p.Objects[n-1].Key)
		}
		if err := asked(o, key, false); err != nil {
			return p, err
		}
		p.Objects = append(p.Objects, info)
	}
	for _, c := range out.CommonPrefixes {
		prefix, err := decode(aws.ToString(c.Prefix))
		if err != nil {
			return p, fmt.Errorf("prefix %q: %w", aws.ToString(c.Prefix), err)
		}
		if err := asked(o, prefix, true); err != nil {
			return p, err
		}
		p.Prefixes = append(p.Prefixes, prefix)
	}
	// SeaweedFS orders prefixes by the name without the slash, which differs where one name is the start of another.
	slices.Sort(p.Prefixes)
	for i := 1; i < len(p.Prefixes); i++ {
		if p.Prefixes[i-1] == p.Prefixes[i] {
			return p, fmt.Errorf("prefix %q twice", p.Prefixes[i])
		}
	}
	if !aws.ToBool(out.IsTruncated) {
		return p, nil
	}
	switch p.NextToken = aws.ToString(out.NextContinuationToken); p.NextToken {
	case "":
		return p, errors.New("truncated, but without a token to go on")
	case o.Token:
		return p, errors.New("the token to go on is that of this page")
	}
	return p, nil
}

// asked checks that an entry is an answer to the question.
func asked(o store.ListOptions, entry string, prefix bool) error {
	switch {
	case !strings.HasPrefix(entry, o.Prefix):
		return fmt.Errorf("entry %q is outside the prefix", entry)
	case prefix && (o.Delimiter == "" || !strings.HasSuffix(entry, o.Delimiter)):
		return fmt.Errorf("prefix %q does not end in the delimiter %q", entry, o.Delimiter)
	case o.Token == "" && entry <= o.StartAfter && !(prefix && strings.HasPrefix(o.StartAfter, entry)):
		return fmt.Errorf("entry %q is not behind start-after %q", entry, o.StartAfter)
	}
	return nil
}

// unquote takes the quotes off an ETag; a weak one keeps its mark.
func unquote(etag string) string {
	if len(etag) >= 2 && etag[0] == '"' && etag[len(etag)-1] == '"' {
		return etag[1 : len(etag)-1]
	}
	return etag
}

// quote is what conditions carry.
func quote(etag string) *string {
	switch {
	case etag == "":
		return nil
	case strings.HasPrefix(etag, `W/"`):
		return &etag
	}
	return aws.String(`"` + etag + `"`)
}

func utc(t *time.Time) time.Time { return aws.ToTime(t).UTC() }
