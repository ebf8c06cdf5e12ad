"""Puts into the services what tests start from, through their APIs.

seed.py identity        users and catalogue
seed.py compute SINCE   flavors, image, network, zones; waits for all hosts to have
                        reported since then (in seconds of Unix time)

What is there already stays as it is.
"""
import calendar
import os
import sys
import time

from keystoneauth1 import session
from keystoneauth1.identity import v3

PASSWORD = os.environ['SEED_PASSWORD']
IDENTITY = os.environ['SEED_IDENTITY']
NOVA = os.environ['SEED_NOVA']
PLACEMENT = os.environ['SEED_PLACEMENT']
GLANCE = os.environ['SEED_GLANCE']
NEUTRON = os.environ['SEED_NEUTRON']

SERVICES = ('nova', 'placement', 'glance', 'neutron')
ENDPOINTS = (('compute', 'nova', NOVA), ('placement', 'placement', PLACEMENT),
             ('image', 'glance', GLANCE), ('network', 'neutron', NEUTRON))
# Table 7 of the HTAS paper: vCPUs and GiB.
FLAVORS = (('t3.xsmall', 1, 1), ('m3.xsmall', 1, 2), ('m3.small', 2, 4),
           ('m1.medium', 2, 8), ('m1.large', 4, 16), ('m1.xlarge', 8, 32))
ZONES = {'fake1': 'roomy', 'fake2': 'small', 'fake3': 'broken'}
PATIENCE = 180  # seconds

admin = session.Session(auth=v3.Password(
    auth_url=IDENTITY, username='admin', password=PASSWORD, project_name='admin',
    user_domain_id='default', project_domain_id='default'))


def ensure(collection, key, match, body):
    """Returns the object that matches, which it makes if there is none."""
    url = '%s/%s' % (IDENTITY, collection)
    found = admin.get(url, params=match).json()[collection]
    return found[0] if found else admin.post(url, json={key: dict(match, **body)}).json()[key]


def identity():
    roles = {r['name']: r['id'] for r in admin.get(IDENTITY + '/roles').json()['roles']}
    if 'service' not in roles:
        roles['service'] = ensure('roles', 'role', {'name': 'service'}, {})['id']
    project = ensure('projects', 'project', {'name': 'service', 'domain_id': 'default'}, {})
    for name in SERVICES:
        user = ensure('users', 'user', {'name': name, 'domain_id': 'default'}, {'password': PASSWORD})
        for role in ('admin', 'service'):
            admin.put('%s/projects/%s/users/%s/roles/%s' % (IDENTITY, project['id'], user['id'], roles[role]))
    for kind, name, url in ENDPOINTS:
        service = ensure('services', 'service', {'type': kind, 'name': name}, {})
        have = admin.get(IDENTITY + '/endpoints', params={'service_id': service['id']}).json()['endpoints']
        for interface in {'public', 'internal', 'admin'} - {e['interface'] for e in have}:
            admin.post(IDENTITY + '/endpoints', json={'endpoint': {
                'service_id': service['id'], 'interface': interface, 'url': url, 'region_id': 'RegionOne'}})


def compute(since):
    have = {f['name'] for f in admin.get(NOVA + '/flavors').json()['flavors']}
    for name, cpus, gib in FLAVORS:
        if name not in have:
            admin.post(NOVA + '/flavors', json={'flavor': {
                'name': name, 'vcpus': cpus, 'ram': gib * 1024, 'disk': 10}})
    images = GLANCE + '/v2/images'
    if not admin.get(images, params={'name': 'node'}).json()['images']:
        image = admin.post(images, json={
            'name': 'node', 'disk_format': 'raw', 'container_format': 'bare', 'visibility': 'public'}).json()
        admin.put('%s/%s/file' % (images, image['id']), data=b'\0' * 1024,
                  headers={'Content-Type': 'application/octet-stream'})
    networks = NEUTRON + '/v2.0/networks'
    if not admin.get(networks, params={'name': 'nodes'}).json()['networks']:
        network = admin.post(networks, json={'network': {'name': 'nodes', 'shared': True}}).json()['network']
        admin.post(NEUTRON + '/v2.0/subnets', json={'subnet': {
            'network_id': network['id'], 'ip_version': 4, 'cidr': '10.64.0.0/16', 'enable_dhcp': False}})
    wait_for_hosts(since)
    aggregates = {a['name']: a for a in admin.get(NOVA + '/os-aggregates').json()['aggregates']}
    for host, zone in ZONES.items():
        if zone not in aggregates:
            aggregates[zone] = admin.post(NOVA + '/os-aggregates', json={'aggregate': {
                'name': zone, 'availability_zone': zone}}).json()['aggregate']
        if host not in aggregates[zone].get('hosts', ()):
            admin.post('%s/os-aggregates/%s/action' % (NOVA, aggregates[zone]['id']), json={'add_host': {'host': host}})


def wait_for_hosts(since):
    """A host that is listed may not listen yet: it must have reported since the start."""
    end = time.time() + PATIENCE
    up = {}
    while time.time() < end:
        up = {}
        for s in admin.get(NOVA + '/os-services').json()['services']:
            at = s['updated_at'] and calendar.timegm(time.strptime(s['updated_at'][:19], '%Y-%m-%dT%H:%M:%S'))
            if s['state'] == 'up' and at and at >= since:
                up.setdefault(s['binary'], set()).add(s['host'])
        hypervisors = [h for h in admin.get(NOVA + '/os-hypervisors').json()['hypervisors'] if h['state'] == 'up']
        if (up.get('nova-compute', set()) >= set(ZONES) and len(hypervisors) >= len(ZONES) and
                up.get('nova-scheduler') and up.get('nova-conductor')):
            return
        time.sleep(0.3)
    sys.exit('not ready: services up: %r' % up)


if __name__ == '__main__':
    if sys.argv[1] == 'identity':
        identity()
    else:
        compute(float(sys.argv[2]))
