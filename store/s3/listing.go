package s3

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/s3/types"
	smithytime "github.com/aws/smithy-go/time"

	"github.com/deltad/deltad/store"
)

// listed is what an answer to ListObjectsV2 says, as far as it is used. Keys and prefixes are as sent, ETags with their quotes.
type listed struct {
	encoded   bool // keys and prefixes are URL-encoded
	truncated bool
	token     string
	objects   []store.ObjectInfo
	prefixes  []string
}

// listedBy is what the SDK has read.
func listedBy(out *s3.ListObjectsV2Output) listed {
	l := listed{
		encoded: out.EncodingType == types.EncodingTypeUrl, truncated: aws.ToBool(out.IsTruncated), token: aws.ToString(out.NextContinuationToken),
		objects: make([]store.ObjectInfo, len(out.Contents)), prefixes: make([]string, len(out.CommonPrefixes)),
	}
	for i, obj := range out.Contents {
		l.objects[i] = store.ObjectInfo{Key: aws.ToString(obj.Key), ETag: aws.ToString(obj.ETag), Size: aws.ToInt64(obj.Size), LastModified: utc(obj.LastModified)}
	}
	for i, c := range out.CommonPrefixes {
		l.prefixes[i] = aws.ToString(c.Prefix)
	}
	return l
}

// readAhead has the answer to a listing read by parseListing before the SDK reads it, which takes some twenty times as long. What
// parseListing does not understand, to the last byte, is left to the SDK.
type readAhead struct {
	ok  bool
	got listed
}

type readAheadKey struct{}

// reading returns a context whose listing is read ahead.
func reading(ctx context.Context) (context.Context, *readAhead) {
	r := &readAhead{}
	return context.WithValue(ctx, readAheadKey{}, r), r
}

// read reads an answer if somebody waits for it. What the SDK is to read instead is then next to nothing, or else all there was.
func read(ctx context.Context, resp *http.Response) {
	r, ok := ctx.Value(readAheadKey{}).(*readAhead)
	if !ok {
		return
	}
	var buf bytes.Buffer
	if n := resp.ContentLength; n > 0 && n <= maxPageBytes {
		buf.Grow(int(n) + bytes.MinRead)
	}
	_, err := buf.ReadFrom(resp.Body)
	rest := io.Reader(&buf)
	if err != nil {
		rest = io.MultiReader(rest, failing{err})
	}
	r.ok = false
	if err == nil {
		if r.got, r.ok = parseListing(buf.Bytes()); r.ok {
			rest = strings.NewReader("<ListBucketResult/>")
		}
	}
	resp.Body = struct {
		io.Reader
		io.Closer
	}{rest, resp.Body}
}

// failing is where reading failed.
type failing struct{ err error }

func (f failing) Read([]byte) (int, error) { return 0, f.err }

// parseListing reads the answers that stores give: elements without attributes, in any order, whose texts are of ASCII. It takes nothing
// that the SDK would refuse or take otherwise, and says not ok where it is not sure.
func parseListing(b []byte) (l listed, ok bool) {
	p := xmlText{b: b}
	if bytes.HasPrefix(b, []byte("<?")) {
		end := bytes.Index(b, []byte("?>"))
		if end < 0 || !strings.EqualFold(string(b[:end]), `<?xml version="1.0" encoding="utf-8"`) {
			return l, false
		}
		p.at = end + 2
	}
	p.space()
	if !p.skip("<ListBucketResult") || !p.namespace() || !p.skip(">") {
		return l, false
	}
	l.objects = make([]store.ObjectInfo, 0, bytes.Count(b, []byte("<Contents>")))
	for !p.end("ListBucketResult") {
		name, empty := p.open()
		switch {
		case p.bad:
		case name == "Contents" && !empty:
			l.objects = append(l.objects, p.object())
		case name == "CommonPrefixes" && !empty:
			l.prefixes = append(l.prefixes, p.commonPrefix())
		default:
			p.field(&l, name, empty)
		}
		if p.bad {
			return l, false
		}
	}
	p.space()
	return l, p.at == len(b)
}

// inListing, inObject and inPrefix are the elements that the SDK knows there, whatever their case.
var (
	inListing = []string{
		"CommonPrefixes", "Contents", "ContinuationToken", "Delimiter", "EncodingType", "IsTruncated", "KeyCount", "MaxKeys", "Name",
		"NextContinuationToken", "Prefix", "StartAfter",
	}
	inObject = []string{"ChecksumAlgorithm", "ChecksumType", "ETag", "Key", "LastModified", "Owner", "RestoreStatus", "Size", "StorageClass"}
)

// field reads an element of the listing itself.
func (p *xmlText) field(l *listed, name string, empty bool) {
	text := p.text(name, empty)
	var err error
	switch name {
	case "IsTruncated":
		l.truncated, err = strconv.ParseBool(text)
	case "NextContinuationToken":
		l.token = text
	case "EncodingType":
		l.encoded = text == string(types.EncodingTypeUrl)
	case "KeyCount", "MaxKeys":
		_, err = strconv.ParseInt(text, 10, 32)
	case "ContinuationToken", "Delimiter", "Name", "Prefix", "StartAfter":
	default:
		p.other(name, inListing)
	}
	p.bad = p.bad || err != nil
}

// object reads Contents behind its start.
func (p *xmlText) object() (o store.ObjectInfo) {
	for !p.end("Contents") && !p.bad {
		name, empty := p.open()
		if name == "Owner" && !empty {
			p.owner()
			continue
		}
		text := p.text(name, empty)
		var err error
		switch name {
		case "Key":
			o.Key = text
		case "ETag":
			o.ETag = text
		case "Size":
			o.Size, err = strconv.ParseInt(text, 10, 64)
		case "LastModified":
			o.LastModified, err = p.time(text)
		case "ChecksumAlgorithm", "ChecksumType", "StorageClass":
		default:
			p.other(name, inObject)
		}
		p.bad = p.bad || err != nil
	}
	return o
}

func (p *xmlText) owner() {
	for !p.end("Owner") && !p.bad {
		name, empty := p.open()
		p.text(name, empty)
		p.bad = p.bad || name != "ID" && name != "DisplayName"
	}
}

func (p *xmlText) commonPrefix() (prefix string) {
	for !p.end("CommonPrefixes") && !p.bad {
		name, empty := p.open()
		prefix = p.text(name, empty)
		p.bad = p.bad || name != "Prefix"
	}
	return prefix
}

// other is an element that nobody knows.
func (p *xmlText) other(name string, known []string) {
	p.bad = p.bad || slices.ContainsFunc(known, func(k string) bool { return strings.EqualFold(k, name) })
}

// xmlText is a piece of XML that is read from its front. Once it is bad it stays so.
type xmlText struct {
	b   []byte
	at  int
	bad bool
	// A time as it was written, and what it is: many objects are written at once.
	written string
	is      time.Time
}

func (p *xmlText) space() {
	for p.at < len(p.b) && (p.b[p.at] == ' ' || p.b[p.at] == '\n' || p.b[p.at] == '\t') {
		p.at++
	}
}

func (p *xmlText) skip(s string) bool {
	if len(p.b)-p.at < len(s) || string(p.b[p.at:p.at+len(s)]) != s {
		return false
	}
	p.at += len(s)
	return true
}

// namespace skips the one attribute that an answer has.
func (p *xmlText) namespace() bool {
	if !p.skip(` xmlns="`) {
		return true
	}
	for ; p.at < len(p.b) && p.b[p.at] != '"'; p.at++ {
		if c := p.b[p.at]; !letter(c) && strings.IndexByte(":/.-", c) < 0 {
			return false
		}
	}
	return p.skip(`"`)
}

// end skips the end of an element, if it is next.
func (p *xmlText) end(name string) bool {
	p.space()
	from := p.at
	if p.skip("</") && p.skip(name) && p.skip(">") {
		return true
	}
	p.at = from
	return false
}

// open reads the start of an element without attributes; empty is one that has ended, too.
func (p *xmlText) open() (name string, empty bool) {
	p.space()
	p.bad = p.bad || !p.skip("<")
	from := p.at
	for p.at < len(p.b) && letter(p.b[p.at]) {
		p.at++
	}
	if name = elementName(p.b[from:p.at]); name == "" || name[0] <= '9' {
		p.bad = true
	}
	empty = p.skip("/")
	p.bad = p.bad || !p.skip(">")
	return name, empty
}

func letter(c byte) bool {
	return 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9'
}

// elementName is a name without memory of its own, for those that every object has.
func elementName(b []byte) string {
	switch string(b) {
	case "Key":
		return "Key"
	case "ETag":
		return "ETag"
	case "Size":
		return "Size"
	case "LastModified":
		return "LastModified"
	case "StorageClass":
		return "StorageClass"
	case "Contents":
		return "Contents"
	case "ChecksumAlgorithm":
		return "ChecksumAlgorithm"
	case "ChecksumType":
		return "ChecksumType"
	}
	return string(b)
}

// text reads what is in an element up to its end, which it skips.
func (p *xmlText) text(name string, empty bool) string {
	if p.bad || empty {
		return ""
	}
	n := bytes.IndexByte(p.b[p.at:], '<')
	if n < 0 {
		p.bad = true
		return ""
	}
	raw := p.b[p.at : p.at+n]
	p.at += n
	if !p.skip("</") || !p.skip(name) || !p.skip(">") {
		p.bad = true
		return ""
	}
	entities := false
	for _, c := range raw {
		switch {
		case c == '&':
			entities = true
		case (c < ' ' && c != '\n' && c != '\t') || c > '~' || c == ']': // "]]>" is not allowed in a text
			p.bad = true
			return ""
		}
	}
	switch {
	case entities:
		return p.unescape(raw)
	case name == "StorageClass", name == "ChecksumAlgorithm", name == "ChecksumType":
		return "" // nobody asks
	}
	return string(raw)
}

func (p *xmlText) unescape(raw []byte) string {
	out := make([]byte, 0, len(raw))
	for len(raw) > 0 {
		i := bytes.IndexByte(raw, '&')
		if i < 0 {
			break
		}
		end := bytes.IndexByte(raw, ';')
		if end < i {
			p.bad = true // none, or a character before: the SDK knows
			return ""
		}
		c, ok := entity(string(raw[i+1 : end]))
		if !ok {
			p.bad = true
			return ""
		}
		out = append(append(out, raw[:i]...), c)
		raw = raw[end+1:]
	}
	return string(append(out, raw...))
}

// entity is the character that an entity of XML stands for, if it is of ASCII and can be seen.
func entity(name string) (c byte, ok bool) {
	switch name {
	case "quot":
		return '"', true
	case "amp":
		return '&', true
	case "lt":
		return '<', true
	case "gt":
		return '>', true
	case "apos":
		return '\'', true
	}
	digits, number := strings.CutPrefix(name, "#")
	base := 10
	if hex, is := strings.CutPrefix(digits, "x"); is {
		digits, base = hex, 16
	}
	n, err := strconv.ParseUint(digits, base, 7)
	return byte(n), number && err == nil && n >= ' ' && n <= '~'
}

func (p *xmlText) time(text string) (time.Time, error) {
	if text == p.written && text != "" {
		return p.is, nil
	}
	t, err := smithytime.ParseDateTime(text)
	p.written, p.is = text, t.UTC()
	return p.is, err
}
