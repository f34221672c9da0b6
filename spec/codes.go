package spec

import (
	"slices"
	"strings"

	"steerpoint/spec/internal/doctree"
)

// Codes of findings. They are stable: programs and documents name them.
const (
	CodeTooLarge = doctree.CodeTooLarge
	CodeNotUTF8  = doctree.CodeNotUTF8
	CodeNUL      = doctree.CodeNUL
	CodeSyntax   = doctree.CodeSyntax
	CodeTooDeep  = doctree.CodeTooDeep
	CodeAlias    = doctree.CodeAlias
	CodeMergeKey = doctree.CodeMergeKey
	CodeTag      = doctree.CodeTag
	CodeLongText = doctree.CodeLongText
	CodeBadKey   = doctree.CodeBadKey

	CodeNotAResource  = "SPEC_NOT_A_RESOURCE"
	CodeAPIVersion    = "SPEC_API_VERSION"
	CodeUnknownKind   = "SPEC_UNKNOWN_KIND"
	CodeUnknownField  = "SPEC_UNKNOWN_FIELD"
	CodeDuplicate     = "SPEC_DUPLICATE_FIELD"
	CodeMissing       = "SPEC_MISSING_FIELD"
	CodeNoValue       = "SPEC_NO_VALUE"
	CodeWrongType     = "SPEC_WRONG_TYPE"
	CodeBadValue      = "SPEC_BAD_VALUE"
	CodeBadName       = "SPEC_BAD_NAME"
	CodeBadAddress    = "SPEC_BAD_ADDRESS"
	CodeAddressAsName = "SPEC_ADDRESS_AS_TARGET"
	CodeBadPrefix     = "SPEC_BAD_PREFIX"
	CodeBadURL        = "SPEC_BAD_URL"
	CodeUnknownPlace  = "SPEC_UNKNOWN_PLACE"
	CodeControl       = doctree.CodeControl
	CodeOutOfRange    = "SPEC_OUT_OF_RANGE"
	CodeNotYet        = "SPEC_NOT_IN_THIS_VERSION"
	CodeTooMany       = "SPEC_TOO_MANY_ERRORS"

	CodeRepeated       = "SPEC_REPEATED"
	CodeOneOf          = "SPEC_ONE_OF"
	CodeUndefined      = "SPEC_UNDEFINED"
	CodeNoCatchAll     = "SPEC_NO_CATCH_ALL"
	CodeCatchAllTwice  = "SPEC_TWO_CATCH_ALLS"
	CodeBadScope       = "SPEC_BAD_SCOPE"
	CodeScopeOverlap   = "SPEC_SCOPE_OVERLAP"
	CodeNoEnabledEdge  = "SPEC_NO_ENABLED_EDGE"
	CodeTimeout        = "SPEC_TIMEOUT_ABOVE_INTERVAL"
	CodeNeedsURL       = "SPEC_NEEDS_URL"
	CodeContradiction  = "SPEC_CONTRADICTION"
	CodeMinTTL         = "SPEC_MIN_TTL_ABOVE_TTL"
	CodeTwoTTLs        = "SPEC_TWO_TTLS"
	CodeAllNeedsAddr   = "SPEC_ALL_NEEDS_ADDRESSES"
	CodeMinPoints      = "SPEC_MIN_POINTS_ABOVE_COUNT"
	CodeBadWindow      = "SPEC_BAD_WINDOW"
	CodeWindowOverlap  = "SPEC_WINDOWS_OVERLAP"
	CodeSamples        = "SPEC_SAMPLES"
	CodeBadRecord      = "SPEC_BAD_RECORD"
	CodeNeedsGlue      = "SPEC_NEEDS_GLUE"
	CodeDuplicateName  = "SPEC_DUPLICATE_RESOURCE"
	CodeDomainTaken    = "SPEC_DOMAIN_TAKEN"
	CodeNoZone         = "SPEC_NO_ZONE"
	CodeWhichZone      = "SPEC_WHICH_ZONE"
	CodeLoop           = "SPEC_LOOP"
	CodeOverrideTarget = "SPEC_OVERRIDE_TARGET"
	CodeSecret         = "SPEC_SECRET_IN_RESOURCE"
	CodeNotKept        = "SPEC_SECRET_NOT_KEPT"
	CodeDelegated      = "SPEC_DELEGATED"
	CodeBadVariable    = "SPEC_BAD_VARIABLE"
	CodeNotCovered     = "SPEC_CERTIFICATE_NAMES"

	CodeSignedMix = "SPEC_SIGNED_NAMES_AND_ADDRESSES"

	// Codes of warnings.

	CodeProbeOff      = "SPEC_PROBE_OFF"
	CodeFamilies      = "SPEC_FAMILIES_DIFFER"
	CodeMixedShapes   = "SPEC_NAMES_AND_ADDRESSES"
	CodeManyAddresses = "SPEC_MANY_ADDRESSES"
	CodePrivate       = "SPEC_PRIVATE_ADDRESS"
	CodeSameEdge      = "SPEC_SAME_DESTINATION"
	CodeFixedEdges    = "SPEC_FIXED_EDGES"
	CodeNoMatch       = "SPEC_SCOPE_MATCHES_NOBODY"
	CodeUnusedEdge    = "SPEC_UNUSED_EDGE"
	CodeAffinity      = "SPEC_SHARED_AFFINITY"
	CodeOccluded      = "SPEC_OCCLUDED"
	CodeFlattened     = "SPEC_FLATTENED"
	CodeTargetCNAME   = "SPEC_TARGET_IS_CNAME"
	CodeLongChain     = "SPEC_LONG_CHAIN"
	CodeNotUsedYet    = "SPEC_NOT_USED_YET"
	CodeNoEnd         = "SPEC_OVERRIDE_WITHOUT_END"
	CodeNoEffect      = "SPEC_OVERRIDE_WITHOUT_EFFECT"
	CodePoints        = "SPEC_FEWER_POINTS"
	CodeLongTTL       = "SPEC_LONG_TTL"
	CodePlainHTTP     = "SPEC_NOT_ENCRYPTED"
	CodeUnheard       = "SPEC_NOTIFIER_WITHOUT_SERVICE"
	CodeUnused        = "SPEC_UNUSED"
	CodeTrustsAll     = "SPEC_CERTIFICATE_NOT_VERIFIED"

	CodeOpenTransfer   = "SPEC_OPEN_TRANSFER"
	CodeTransferUnused = "SPEC_TRANSFER_UNUSED"

	CodeDynamicUnserved = "SPEC_DYNAMIC_NOT_SERVED"
)

// CodeDoc explains one code.
type CodeDoc struct {
	Code    string `json:"code"`
	Warning bool   `json:"warning"` // false: an error
	Text    string `json:"text"`    // what it means and what to do
}

// Codes lists every code with its explanation, errors first, each group by code.
func Codes() []CodeDoc {
	var out []CodeDoc
	for _, part := range []struct {
		table   string
		warning bool
	}{{errorTexts, false}, {warningTexts, true}} {
		var docs []CodeDoc
		for line := range strings.SplitSeq(strings.TrimSpace(part.table), "\n") {
			code, text, _ := strings.Cut(line, " = ")
			docs = append(docs, CodeDoc{code, part.warning, text})
		}
		slices.SortFunc(docs, func(a, b CodeDoc) int { return strings.Compare(a.Code, b.Code) })
		out = append(out, docs...)
	}
	return out
}

const errorTexts = `
SPEC_TOO_LARGE = The file is larger than 16 MiB or holds more than about a million values. Split it.
SPEC_NOT_UTF8 = The file is not UTF-8 text. Save it as UTF-8.
SPEC_NUL = The file holds a NUL byte; it is not text, or it was damaged.
SPEC_SYNTAX = The file is not YAML or JSON. The line named is where the reader stopped; the mistake is there or just above.
SPEC_TOO_DEEP = The file is nested more than 32 levels deep.
SPEC_ALIAS = Anchors and aliases (&x, *x) are not accepted, because a reader must see each value where it is used.
SPEC_MERGE_KEY = Merge keys (<<) are not accepted, for the same reason as aliases.
SPEC_TAG = YAML tags (!x) are not accepted. Quote a value that must be text.
SPEC_TEXT_TOO_LONG = One text in the file is longer than 64 KiB.
SPEC_BAD_KEY = A field name is not a plain word.
SPEC_NOT_A_RESOURCE = A document is not a map of fields. Every document starts with apiVersion, kind and name.
SPEC_API_VERSION = The document's apiVersion is not one this version reads.
SPEC_UNKNOWN_KIND = The document's kind does not exist.
SPEC_UNKNOWN_FIELD = The field does not exist. The nearest known one is named.
SPEC_DUPLICATE_FIELD = The field is written twice in one map.
SPEC_MISSING_FIELD = A field that has no default is missing.
SPEC_NO_VALUE = The field is written without a value. Leave it out to get its default.
SPEC_WRONG_TYPE = The value is of another type: text where a number is needed, a list where one value is needed.
SPEC_BAD_VALUE = The value is not one of those allowed.
SPEC_BAD_NAME = A name is not a valid name of its kind.
SPEC_BAD_ADDRESS = The value is no usable IP address.
SPEC_ADDRESS_AS_TARGET = An IP address stands where a name is needed. Addresses of an edge go into addresses.
SPEC_BAD_PREFIX = The value is no address range, or has bits set beyond its length.
SPEC_BAD_URL = The value is no URL that can be probed.
SPEC_UNKNOWN_PLACE = No such country or continent, so no visitor could match.
SPEC_CONTROL_CHARACTER = A text holds a control character, such as a line end.
SPEC_OUT_OF_RANGE = A number or a duration is outside its bounds.
SPEC_NOT_IN_THIS_VERSION = The format knows this, but this version of the program cannot do it yet.
SPEC_TOO_MANY_ERRORS = One document has more than 100 errors; the rest is not shown.
SPEC_REPEATED = Something that may occur once occurs twice: a name, an edge in a rule, an address in an edge.
SPEC_ONE_OF = Exactly one of several fields must be set.
SPEC_UNDEFINED = A name is used that is not defined, such as an edge in a rule.
SPEC_NO_CATCH_ALL = No rule of the service has scope "*". One must, for visitors no other rule is for.
SPEC_TWO_CATCH_ALLS = Two rules of the service have scope "*".
SPEC_BAD_SCOPE = The fields of a scope do not go together.
SPEC_SCOPE_OVERLAP = Two rules of the service claim the same visitors with the same specificity, so neither would win.
SPEC_NO_ENABLED_EDGE = Every edge of a rule is disabled.
SPEC_TIMEOUT_ABOVE_INTERVAL = A probe may not take longer than the time between probes.
SPEC_NEEDS_URL = The URL of the probe cannot be made from the first domain. Write probe.url.
SPEC_CONTRADICTION = Two fields contradict each other, or one has no effect without the other.
SPEC_MIN_TTL_ABOVE_TTL = The shortest TTL is longer than the TTL.
SPEC_TWO_TTLS = One name would have two TTLs. A record set has one (RFC 2181 section 5.2).
SPEC_ALL_NEEDS_ADDRESSES = whenAllDown: all answers with several edges at once, which works for addresses only: a name has one CNAME.
SPEC_MIN_POINTS_ABOVE_COUNT = More points must agree than the rule has, so no verdict would ever change.
SPEC_BAD_WINDOW = A schedule entry is empty, or its time zone is not known.
SPEC_WINDOWS_OVERLAP = Two schedule entries of a rule hold at the same time.
SPEC_SAMPLES = A health probe needs more successes than it looks at results.
SPEC_BAD_RECORD = A static record is not valid for its type.
SPEC_NEEDS_GLUE = A name server inside its own zone needs its addresses.
SPEC_DUPLICATE_RESOURCE = Two documents define the same resource.
SPEC_DOMAIN_TAKEN = A name belongs to two services, zones or records.
SPEC_NO_ZONE = The service's steering zone does not exist.
SPEC_WHICH_ZONE = There are several steering zones and the service does not say which.
SPEC_LOOP = A target or fallback leads back to the service itself, directly or over other services.
SPEC_OVERRIDE_TARGET = An override names a service, rule or edge that does not exist.
SPEC_BAD_VARIABLE = A text of a rule names a server variable that does not exist, or writes one wrongly.
SPEC_CERTIFICATE_NAMES = A domain uses a Certificate that is not for it.
SPEC_DELEGATED = A name of a service lies at or below a delegation, so other name servers answer for it. Take the NS records away, or use another name.
SPEC_SIGNED_NAMES_AND_ADDRESSES = A service in a signed zone has edges that are addresses, and one that is a name which is steered here itself. Validators keep "there are no addresses" for all clients of a resolver, so a signed name has one shape for everybody, and a steered name has no addresses that everybody gets. Give the edge addresses, or a name of another zone.
SPEC_SECRET_NOT_KEPT = A Secret is written without a value, as a server shows it, and that value is not stored here. Write the value itself in data.
SPEC_SECRET_IN_RESOURCE = A key stands in the resource, where everyone who may read it finds it. Put it into a Secret and name that, or into a file on the machine of control with mode 0600.
`

const warningTexts = `
SPEC_PROBE_OFF = Probing is configured but switched off, so nothing moves by itself.
SPEC_FAMILIES_DIFFER = Edges of the service differ in address families. While one without IPv6 answers, resolvers keep "no AAAA" for all of their clients.
SPEC_NAMES_AND_ADDRESSES = The service mixes edges that are names with edges that are addresses. Its answer is a CNAME or addresses, by the edge in force.
SPEC_MANY_ADDRESSES = The edge has more than 10 addresses of one family; an answer holds 10.
SPEC_PRIVATE_ADDRESS = The address is not reachable from the Internet.
SPEC_SAME_DESTINATION = Two edges are the same destination: a move between them changes nothing.
SPEC_FIXED_EDGES = A fixed rule answers with its first edge; the others are never used.
SPEC_SCOPE_MATCHES_NOBODY = No visitor can be in the scope.
SPEC_UNUSED_EDGE = No rule uses the edge.
SPEC_SHARED_AFFINITY = Two services under one wildcard parent use session affinity; their cookies share one domain.
SPEC_FLATTENED = A domain is a zone of ours itself, where no CNAME can stand (RFC 1034 section 3.6.2). The addresses of the edge's name are answered there, as a resolver of control finds them; the vendor of that name sees where control is, not where visitors are.
SPEC_OCCLUDED = A record lies at or below a delegation, or in another zone of ours, which answers for it: it is not served.
SPEC_TARGET_IS_CNAME = An MX, SRV or NS record names a CNAME (RFC 2181 section 10.3). Many programs do not follow it. Name its target.
SPEC_LONG_CHAIN = More CNAMEs follow one another than are answered at once, so resolvers must ask several times.
SPEC_NOT_USED_YET = The field is checked but has no effect in this version.
SPEC_OVERRIDE_WITHOUT_END = The override has no end. It holds until someone deletes it.
SPEC_OVERRIDE_WITHOUT_EFFECT = The override names something that does not exist.
SPEC_FEWER_POINTS = The rule asks for more probe points than exist.
SPEC_LONG_TTL = With this TTL visitors follow a switch late.
SPEC_NOT_ENCRYPTED = A notifier posts over http, so what it tells is readable on the way. Use https.
SPEC_NOTIFIER_WITHOUT_SERVICE = A notifier is for a service that does not exist, so it tells nothing of it.
SPEC_UNUSED = Nothing uses the origin group, the RuleSet or the Certificate.
SPEC_CERTIFICATE_NOT_VERIFIED = Any certificate of the origin is accepted, so whoever is on the way can read and change what passes. Give the certificates that sign it in tls.roots.
SPEC_OPEN_TRANSFER = Everybody may transfer the zone, so everybody can read all its names. Name the secondaries, or a TSIG key.
SPEC_TRANSFER_UNUSED = Something about zone transfers has no effect: nobody may transfer, a TSIG key is used by nothing, or steered names in the zone keep it from being transferred (steering: false, or transfer.steered: default).
SPEC_DYNAMIC_NOT_SERVED = A record set that a DNS UPDATE wrote is not served: the Zone or a service has something at its name that it cannot stand beside, or there is no Zone of that name. What is written in resources is served. Delete it from DynamicRecords, or take away what stands in its way.
`
