package scope

import (
	"strings"
	"unicode/utf8"
)

// Canonical returns the place in the spelling that scopes use. A known country decides the continent. Values that are
// no country or continent become empty: data sources use codes such as ZZ or EU for "somewhere".
func (p Place) Canonical() Place {
	p.Country, p.Continent = upper(p.Country), upper(p.Continent)
	if c := ContinentOf(p.Country); c != "" {
		p.Continent = c
	} else {
		p.Country = ""
	}
	if !isContinent(p.Continent) {
		p.Continent = ""
	}
	p.Province = CanonicalProvince(p.Country, p.Province)
	if own := ownCountry(p.Country, p.Province); own != "" {
		p.Country, p.Province = own, ""
	}
	p.City, p.ISP = CanonicalCity(p.Country, p.City), CanonicalISP(p.ISP)
	return p
}

// ownCountry returns the country code of a province of China that ISO 3166-1 gives one, or "". Databases file Hong
// Kong, Macao and Taiwan under China or under their own code; here they have one place, the one of their own code,
// without a province of the same name.
func ownCountry(country, province string) string {
	code := provinceCode("CN", Fold(province))
	if (code == "HK" || code == "MO" || code == "TW") && (country == "CN" || country == code) {
		return code
	}
	return ""
}

// CanonicalCity spells a city of country: folded, and in China, Hong Kong, Macao and Taiwan without the word for city
// at its end, so that 深圳市 and 深圳 are one.
func CanonicalCity(country, name string) string {
	folded := Fold(name)
	switch country {
	case "CN", "HK", "MO", "TW":
		if short := strings.TrimSuffix(folded, "市"); utf8.RuneCountInString(short) > 1 {
			return short
		}
	}
	return folded
}

// String writes the place like a scope: "country=CN province=GD isp=chinatelecom asn=4134", or "nowhere known".
func (p Place) String() string {
	s := Scope{}
	for _, f := range []struct {
		v    string
		list *[]string
	}{
		{p.Continent, &s.Continent},
		{p.Country, &s.Country},
		{p.Province, &s.Province},
		{p.City, &s.City},
		{p.ISP, &s.ISP},
	} {
		if f.v != "" {
			*f.list = []string{f.v}
		}
	}
	if p.ASN != 0 {
		s.ASN = []uint32{p.ASN}
	}
	if text := s.Canonical(); text != "" {
		return text
	}
	return "nowhere known"
}

// Fold spells a name: lower case, without spaces and ASCII punctuation, so that "New York" and "new-york" are one city.
func Fold(name string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case 'a' <= r && r <= 'z', '0' <= r && r <= '9':
			return r
		case r < 0x80, r > 0x80 && strings.TrimSpace(string(r)) == "":
			return -1
		}
		return r
	}, strings.ToLower(name))
}

func upper(code string) string { return strings.ToUpper(strings.TrimSpace(code)) }

// CanonicalProvince spells a province of country: its ISO 3166-2 code without the country where the name or an older
// number is known (China, United States), else a code of up to three letters or digits in upper case, else the folded
// name.
func CanonicalProvince(country, name string) string {
	name = strings.TrimSpace(name)
	if country != "" && len(name) > 3 && name[2] == '-' && strings.EqualFold(name[:2], country) {
		name = name[3:]
	}
	folded := Fold(name)
	if code := provinceCode(country, folded); code != "" {
		return code
	}
	if len(folded) <= 3 && isASCII(folded) {
		return strings.ToUpper(folded)
	}
	return folded
}

func isASCII(s string) bool {
	for i := range len(s) {
		if s[i] >= 0x80 {
			return false
		}
	}
	return true
}

// ContinentOf returns the continent of an upper-case ISO 3166-1 alpha-2 code as GeoNames assigns it, or "" when the
// code is not assigned. XK (Kosovo) is user-assigned and known, since every database uses it.
func ContinentOf(country string) string { return continentByCountry[country] }

func isContinent(code string) bool {
	_, ok := countriesOf[code]
	return ok
}

// countryHint names the code meant by common mistakes.
func countryHint(code string) string {
	switch code {
	case "UK", "ENGLAND", "SCOTLAND":
		return "GB"
	case "EL":
		return "GR"
	case "USA":
		return "US"
	case "CHN", "CHINA", "PRC":
		return "CN"
	case "JPN", "JAPAN":
		return "JP"
	}
	return ""
}

// countriesOf lists the ISO 3166-1 alpha-2 codes of each continent.
var countriesOf = map[string]string{
	"AF": "AO BF BI BJ BW CD CF CG CI CM CV DJ DZ EG EH ER ET GA GH GM GN GQ GW KE KM LR LS LY MA MG ML MR MU MW MZ NA " +
		"NE NG RE RW SC SD SH SL SN SO SS ST SZ TD TG TN TZ UG YT ZA ZM ZW",
	"AN": "AQ BV GS HM TF",
	"AS": "AE AF AM AZ BD BH BN BT CC CN GE HK ID IL IN IO IQ IR JO JP KG KH KP KR KW KZ LA LB LK MM MN MO MV MY NP OM " +
		"PH PK PS QA SA SG SY TH TJ TM TR TW UZ VN YE",
	"EU": "AD AL AT AX BA BE BG BY CH CY CZ DE DK EE ES FI FO FR GB GG GI GR HR HU IE IM IS IT JE LI LT LU LV MC MD ME " +
		"MK MT NL NO PL PT RO RS RU SE SI SJ SK SM UA VA XK",
	"NA": "AG AI AW BB BL BM BQ BS BZ CA CR CU CW DM DO GD GL GP GT HN HT JM KN KY LC MF MQ MS MX NI PA PM PR SV SX TC " +
		"TT US VC VG VI",
	"OC": "AS AU CK CX FJ FM GU KI MH MP NC NF NR NU NZ PF PG PN PW SB TK TL TO TV UM VU WF WS",
	"SA": "AR BO BR CL CO EC FK GF GY PE PY SR UY VE",
}

var continentByCountry = invertCountries()

func invertCountries() map[string]string {
	m := make(map[string]string, 256)
	for continent, list := range countriesOf {
		for _, c := range strings.Fields(list) {
			m[c] = continent
		}
	}
	return m
}
