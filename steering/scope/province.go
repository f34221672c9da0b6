package scope

// provinceCode returns the ISO 3166-2 code of a folded province name, or "".
func provinceCode(country, folded string) string {
	return provinceCodes[country][folded]
}

var provinces = map[string]names{"CN": compileNames(chinaProvinces), "US": compileNames(unitedStates)}

var provinceCodes = compileProvinces()

func compileProvinces() map[string]map[string]string {
	m := make(map[string]map[string]string, len(provinces))
	for country, list := range provinces {
		m[country] = compileIndex(list)
	}
	for _, e := range provinces["US"] {
		m["US"][e.zh+"州"] = e.id
	}
	return m
}

// chinaProvinces: ISO 3166-2:CN code, English, Chinese, the number of GB/T 2260 (the code before 2017, still found in
// data), other names.
const chinaProvinces = `BJ|Beijing|北京|11|北京市
TJ|Tianjin|天津|12|天津市
HE|Hebei|河北|13|河北省
SX|Shanxi|山西|14|山西省
NM|Inner Mongolia|内蒙古|15|Nei Mongol|Nei Menggu|Inner Mongolia Autonomous Region|内蒙古自治区
LN|Liaoning|辽宁|21|辽宁省
JL|Jilin|吉林|22|吉林省
HL|Heilongjiang|黑龙江|23|黑龙江省
SH|Shanghai|上海|31|上海市
JS|Jiangsu|江苏|32|江苏省
ZJ|Zhejiang|浙江|33|浙江省
AH|Anhui|安徽|34|安徽省
FJ|Fujian|福建|35|福建省
JX|Jiangxi|江西|36|江西省
SD|Shandong|山东|37|山东省
HA|Henan|河南|41|河南省
HB|Hubei|湖北|42|湖北省
HN|Hunan|湖南|43|湖南省
GD|Guangdong|广东|44|广东省
GX|Guangxi|广西|45|Guangxi Zhuang|Guangxi Zhuang Autonomous Region|Guangxi Zhuangzu|广西壮族自治区
HI|Hainan|海南|46|海南省
CQ|Chongqing|重庆|50|重庆市
SC|Sichuan|四川|51|四川省
GZ|Guizhou|贵州|52|贵州省
YN|Yunnan|云南|53|云南省
XZ|Tibet|西藏|54|Xizang|Tibet Autonomous Region|西藏自治区
SN|Shaanxi|陕西|61|陕西省
GS|Gansu|甘肃|62|甘肃省
QH|Qinghai|青海|63|青海省
NX|Ningxia|宁夏|64|Ningxia Hui|Ningxia Hui Autonomous Region|Ningsia Hui Autonomous Region|宁夏回族自治区
XJ|Xinjiang|新疆|65|Xinjiang Uyghur|Xinjiang Uyghur Autonomous Region|Xinjiang Uygur Autonomous Region|新疆维吾尔自治区
TW|Taiwan|台湾|71|台湾省|臺灣
HK|Hong Kong|香港|81|91|Hong Kong SAR|香港特别行政区
MO|Macao|澳门|82|92|Macau|澳门特别行政区
`

// unitedStates: ISO 3166-2:US code, English, Chinese, other names.
const unitedStates = `AL|Alabama|亚拉巴马|阿拉巴马
AK|Alaska|阿拉斯加
AZ|Arizona|亚利桑那
AR|Arkansas|阿肯色
CA|California|加利福尼亚|加州
CO|Colorado|科罗拉多
CT|Connecticut|康涅狄格
DE|Delaware|特拉华
DC|District of Columbia|哥伦比亚特区|Washington DC|华盛顿特区
FL|Florida|佛罗里达
GA|Georgia|佐治亚|乔治亚
HI|Hawaii|夏威夷
ID|Idaho|爱达荷
IL|Illinois|伊利诺伊
IN|Indiana|印第安纳
IA|Iowa|艾奥瓦|爱荷华
KS|Kansas|堪萨斯
KY|Kentucky|肯塔基
LA|Louisiana|路易斯安那
ME|Maine|缅因
MD|Maryland|马里兰
MA|Massachusetts|马萨诸塞|麻省
MI|Michigan|密歇根
MN|Minnesota|明尼苏达
MS|Mississippi|密西西比
MO|Missouri|密苏里
MT|Montana|蒙大拿
NE|Nebraska|内布拉斯加
NV|Nevada|内华达
NH|New Hampshire|新罕布什尔
NJ|New Jersey|新泽西
NM|New Mexico|新墨西哥
NY|New York|纽约
NC|North Carolina|北卡罗来纳|北卡罗莱纳
ND|North Dakota|北达科他
OH|Ohio|俄亥俄
OK|Oklahoma|俄克拉何马|俄克拉荷马
OR|Oregon|俄勒冈
PA|Pennsylvania|宾夕法尼亚|宾州
RI|Rhode Island|罗得岛|罗德岛
SC|South Carolina|南卡罗来纳|南卡罗莱纳
SD|South Dakota|南达科他
TN|Tennessee|田纳西
TX|Texas|得克萨斯|德克萨斯|德州
UT|Utah|犹他
VT|Vermont|佛蒙特
VA|Virginia|弗吉尼亚
WA|Washington|华盛顿
WV|West Virginia|西弗吉尼亚
WI|Wisconsin|威斯康星
WY|Wyoming|怀俄明
`
