package sink

import (
	"bytes"
	"strconv"
	"time"
)

// appendInputs appends what encode writes for inputs. A window of many objects has thousands of them, and most of what a manifest costs was
// theirs.
func appendInputs(b []byte, inputs []Input) ([]byte, error) {
	var err error
	var last Time // the partition before, which the next one often is
	var text []byte
	b = append(b, '[')
	for i := range inputs {
		in := &inputs[i]
		if i > 0 {
			b = append(b, ',')
		}
		if b, err = appendString(append(b, `{"key":`...), in.Key); err != nil {
			return nil, err
		}
		if text == nil || in.Partition != last {
			if text, err = appendTime(text[:0], in.Partition); err != nil {
				return nil, err
			}
			last = in.Partition
		}
		b = append(append(b, `,"partition":`...), text...)
		if b, err = appendString(append(b, `,"etag":`...), in.ETag); err != nil {
			return nil, err
		}
		b = strconv.AppendInt(append(b, `,"bytes":`...), in.Bytes, 10)
		b = strconv.AppendInt(append(b, `,"rows":`...), in.Rows, 10)
		b = append(b, '}')
	}
	return append(b, ']'), nil
}

// appendString appends what encode writes for a string.
func appendString(b []byte, s string) ([]byte, error) {
	for i := range len(s) {
		if c := s[i]; c < ' ' || c >= 0x7f || c == '"' || c == '\\' {
			text, err := encode(s)
			return append(b, bytes.TrimSuffix(text, []byte("\n"))...), err
		}
	}
	b = append(append(b, '"'), s...)
	return append(b, '"'), nil
}

// appendTime appends what encode writes for a time.
func appendTime(b []byte, t Time) ([]byte, error) {
	u := t.UTC()
	if y := u.Year(); y < 0 || y > 9999 {
		_, err := encode(t)
		return nil, err
	}
	b = u.AppendFormat(append(b, '"'), time.RFC3339Nano)
	return append(b, '"'), nil
}

// noInputs is how encode writes the field of a manifest without inputs. Within a string its quotes would have backslashes.
var noInputs = []byte(`,"inputs":[],`)

// encodeManifest is encode of a manifest in its normal form.
func encodeManifest(m Manifest) ([]byte, error) {
	inputs := m.Inputs
	m.Inputs = []Input{}
	b, err := encode(m)
	if err != nil || len(inputs) == 0 {
		return b, err
	}
	at := bytes.Index(b, noInputs)
	if at < 0 || bytes.Contains(b[at+1:], noInputs) {
		m.Inputs = inputs
		return encode(m)
	}
	at += len(noInputs) - len("[],")
	const each = 160 // bytes, about
	out, err := appendInputs(append(make([]byte, 0, len(b)+each*len(inputs)), b[:at]...), inputs)
	if err != nil {
		return nil, err
	}
	return append(out, b[at+len("[]"):]...), nil
}

// encodeInputs is the side file of inputs.
func encodeInputs(inputs []Input) ([]byte, error) {
	const each = 160 // bytes, about
	b := append(make([]byte, 0, each*len(inputs)+64), `{"format":"`+inputsFormat+`","inputs":`...)
	b, err := appendInputs(b, inputs)
	if err != nil {
		return nil, err
	}
	return append(b, '}', '\n'), nil
}
